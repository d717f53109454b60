package readers

import (
	"bytes"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// listPiece is how many rows one statement walks through: some milliseconds, so that a
// search ends soon after its time is over.
const listPiece = 5_000

// ListRuns implements persistence.RunLists.
func (s *Reader) ListRuns(ctx context.Context, filter persistence.RunFilter) (persistence.RunList, error) {
	if !listable(&filter) {
		return persistence.RunList{}, nil
	}
	ctx, leave, err := s.LargeCaller(ctx)
	if err != nil {
		return persistence.RunList{}, err
	}
	defer leave()
	switch {
	case !filter.Parent.IsZero():
		return s.listChildren(ctx, &filter)
	case filter.Key != "" && filter.Tenant != "":
		return s.listKeyed(ctx, &filter)
	}
	ids, next, err := s.listRuns(ctx, &filter)
	if err != nil || len(ids) == 0 {
		return persistence.RunList{Next: next}, pgerr.Translate(err)
	}
	rows, err := s.readRuns(ctx, pgsql.Named{"runs": ids, "outputs": false}, filter.Tenant)
	return persistence.RunList{Rows: rows, Next: next}, err
}

// listable reports whether a run may have what a filter asks for.
func listable(f *persistence.RunFilter) bool {
	for _, text := range []string{f.Tenant, f.Workflow, f.Key, f.Origin, f.Class, f.FailedStep} {
		if !pgsql.Storable(text) {
			return false
		}
	}
	return pgsql.StorableLabels(f.Labels)
}

// listRuns searches piece by piece, each in a statement of its own, until the page is full,
// its time is over, or nothing is left.
func (s *Reader) listRuns(ctx context.Context, f *persistence.RunFilter) (ids pgsql.UUIDs, next workflow.RunID, err error) {
	labels, err := pgsql.LabelText(f.Labels)
	if err != nil {
		return nil, next, err
	}
	from, before := f.Range()
	name := "list_runs"
	if f.Tenant != "" {
		name = "list_tenant_runs"
	}
	args := pgsql.Named{
		"from": [16]byte(from), "states": numbersOf(f.States), "labels": labels, "workflow": pgsql.TextOrNull(f.Workflow), "key": pgsql.TextOrNull(f.Key),
		"origin": pgsql.TextOrNull(f.Origin), "class": pgsql.TextOrNull(f.Class), "step": pgsql.TextOrNull(f.FailedStep),
		"tenant": pgsql.TextOrNull(f.Tenant), "ended": f.Ended(), "piece": listPiece,
	}
	since := (clock.System{}).Now()
	for last := since; bytes.Compare(from[:], before[:]) < 0; before = next {
		args["before"], args["limit"] = [16]byte(before), f.Page()-len(ids)
		text, values := s.Bind(name, args)
		var piece [][16]byte
		var low *[16]byte
		if err := s.Conns.QueryRow(ctx, text, values...).Scan(&piece, &low); err != nil {
			return nil, next, err
		}
		for _, id := range piece {
			ids = append(ids, id)
		}
		next = pgsql.OrZero(low)
		now := (clock.System{}).Now()
		if next.IsZero() || len(ids) == f.Page() || now.Sub(since)+now.Sub(last) > f.Patience() { // the next one takes as long
			break
		}
		last = now
	}
	return ids, next, nil
}

func numbersOf(states []lifecycle.State) []int16 {
	numbers := make([]int16, len(states))
	for i, state := range states {
		numbers[i] = int16(state)
	}
	return numbers
}

// listKeyed finds the runs of a tenant by their key. They are few.
func (s *Reader) listKeyed(ctx context.Context, f *persistence.RunFilter) (out persistence.RunList, err error) {
	_, err = s.listNamed(ctx, f, &out, "list_keyed_runs", pgsql.Named{"tenant": f.Tenant, "workflow": pgsql.TextOrNull(f.Workflow), "key": f.Key})
	return out, err
}

// listChildren finds the child runs of a run, page by page, until the page is full, its time is
// over, or nothing is left.
func (s *Reader) listChildren(ctx context.Context, f *persistence.RunFilter) (out persistence.RunList, err error) {
	from, before := f.Range()
	since, limit := (clock.System{}).Now(), max(f.Page(), childPiece)
	for {
		ids, err := s.listNamed(ctx, f, &out, "list_child_runs", pgsql.Named{
			"run": [16]byte(f.Parent), "from": [16]byte(from), "before": [16]byte(before), "limit": limit,
		})
		if err != nil || len(ids) < limit || !out.Next.IsZero() {
			return out, err
		}
		if before = ids[limit-1]; (clock.System{}).Now().Sub(since) > f.Patience() {
			out.Next = before
			return out, nil
		}
	}
}

// childPiece is how many child runs are looked at together at least.
const childPiece = 200

// listNamed adds to a page those of the runs that a statement names of which a filter holds.
func (s *Reader) listNamed(ctx context.Context, f *persistence.RunFilter, out *persistence.RunList, name string, args pgsql.Named) (ids pgsql.UUIDs, err error) {
	text, values := s.Bind(name, args)
	rows, err := s.Conns.Query(ctx, text, values...)
	if err != nil {
		return nil, pgerr.Translate(err)
	}
	ids, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (id workflow.RunID, err error) {
		err = row.Scan((*[16]byte)(&id))
		return id, err
	})
	if err != nil || len(ids) == 0 {
		return nil, pgerr.Translate(err)
	}
	list, err := s.readRuns(ctx, pgsql.Named{"runs": ids, "outputs": false}, f.Tenant)
	list = slices.DeleteFunc(list, func(row persistence.RunRow) bool { return !f.Matches(&row) })
	out.Rows = append(out.Rows, list...)
	if len(out.Rows) >= f.Page() {
		out.Rows = out.Rows[:f.Page()]
		out.Next = out.Rows[len(out.Rows)-1].ID
	}
	return ids, err
}
