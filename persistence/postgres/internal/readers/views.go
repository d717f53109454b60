package readers

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// Events implements persistence.RunViews.
func (s *Reader) Events(
	ctx context.Context, tenant string, id workflow.RunID, seen persistence.EventPosition, limit int,
) ([]lifecycle.Event, error) {
	if limit <= 0 || limit > persistence.PageMax {
		limit = persistence.PageMax
	}
	args := pgsql.Named{"run": [16]byte(id), "seen": pgsql.OrEmpty([]int64(seen)), "limit": limit}
	return readOf(ctx, s, tenant, id, "read_events", args, scanEvent)
}

// Payload implements persistence.RunViews.
func (s *Reader) Payload(ctx context.Context, tenant string, id workflow.RunID, step string, limit int) (persistence.PayloadHead, error) {
	var head persistence.PayloadHead
	ctx, leave, err := s.Caller(ctx)
	if err != nil {
		return head, err
	}
	defer leave()
	if !pgsql.Storable(tenant) {
		return head, persistence.ErrRunNotFound
	}
	name := step
	if !pgsql.Storable(step) {
		name = "" // which no step has: whether there is the run is still to be told
	}
	var (
		defined, known bool
		state          *int16
		class, text    *string
		size           *int
	)
	sql, args := s.Bind("read_payload", pgsql.Named{"run": [16]byte(id), "tenant": tenant, "step": name, "limit": max(limit, 0)})
	err = s.Conns.QueryRow(ctx, sql, args...).Scan(&defined, &known, &state, &class, &text, &size, &head.Data)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return head, persistence.ErrRunNotFound
	case err != nil:
		return persistence.PayloadHead{}, pgerr.Translate(err)
	case step != "" && !defined:
		return persistence.PayloadHead{}, pgerr.ErrRegistryLost
	case step != "" && !known:
		return persistence.PayloadHead{}, persistence.ErrStepNotFound
	}
	head.Size = -1
	if size != nil {
		head.Size = *size
	}
	head.State, head.Class, head.Error = lifecycle.State(pgsql.OrZero(state)), pgsql.OrZero(class), pgsql.OrZero(text)
	return head, nil
}

// Workflows implements persistence.RunViews.
func (s *Reader) Workflows(ctx context.Context) ([]persistence.DefinitionRow, error) {
	args := pgsql.Named{
		"sleeps": int16(workflow.TraitSleep | workflow.TraitSleepUntil), "most": persistence.UnregisteredMax,
		"definitions": persistence.DefinitionsMax,
	}
	return readAll(ctx, s, "read_workflows", args, func(row pgx.CollectableRow) (persistence.DefinitionRow, error) {
		var d persistence.DefinitionRow
		var hash []byte
		err := row.Scan(&d.Workflow, &hash, &d.Steps, &d.Unregistered)
		copy(d.Hash[:], hash)
		return d, err
	})
}

// Pods implements persistence.RunViews. That the pod that led last still does, its session
// tells.
func (s *Reader) Pods(ctx context.Context) ([]persistence.PodRow, error) {
	var last int64
	pods, err := readAll(ctx, s, "read_pods", pgsql.Named{"most": persistence.PodsMax}, func(row pgx.CollectableRow) (persistence.PodRow, error) {
		var p persistence.PodRow
		var lease float64
		err := row.Scan(&p.ID, &p.Name, &p.Version, &p.Protocol, &p.Slots, &p.Queues, &p.StartedAt, &p.Expires, &lease, &last)
		p.Lease = seconds(lease)
		return p, err
	})
	if err != nil || len(pods) == 0 {
		return pods, err
	}
	args := pgsql.Named{"schema": s.Schema, "holder": last, "key": leaderKey(s.Schema)}
	leads, err := readAll(ctx, s, "explain_leader", args, func(row pgx.CollectableRow) (bool, error) {
		var leads bool
		err := row.Scan(nil, nil, nil, &leads, nil)
		return leads, err
	})
	for i := range pods {
		pods[i].Leads = pods[i].ID == last && len(leads) > 0 && leads[0]
	}
	return pods, err
}

// seconds is a number of them as a duration, to the microsecond.
func seconds(count float64) time.Duration {
	return time.Duration(count * float64(time.Second)).Round(time.Microsecond)
}

// readAll returns the rows of a statement that may read much.
func readAll[T any](ctx context.Context, s *Reader, name string, args pgsql.Named, scan pgx.RowToFunc[T]) ([]T, error) {
	ctx, leave, err := s.LargeCaller(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	text, values := s.Bind(name, args)
	rows, err := s.Conns.Query(ctx, text, values...)
	if err != nil {
		return nil, pgerr.Translate(err)
	}
	list, err := pgx.CollectRows(rows, scan)
	return list, pgerr.Translate(err)
}
