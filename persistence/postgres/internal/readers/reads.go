package readers

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// Run implements persistence.Runs.
func (s *Reader) Run(ctx context.Context, tenant string, id workflow.RunID, without ...persistence.Without) (persistence.RunRow, error) {
	ctx, leave, err := s.Caller(ctx)
	if err != nil {
		return persistence.RunRow{}, err
	}
	defer leave()
	rows, err := s.readRuns(ctx, pgsql.Named{"runs": pgsql.UUIDs{id}, "outputs": outputs(without)}, tenant)
	if err != nil {
		return persistence.RunRow{}, err
	}
	switch {
	case len(rows) == 0:
		return persistence.RunRow{}, persistence.ErrRunNotFound
	case rows[0].Workflow == "": // which output is the run's is not known
		return persistence.RunRow{}, pgerr.ErrRegistryLost
	}
	return rows[0], nil
}

func (s *Reader) readRuns(ctx context.Context, of pgsql.Named, tenant string) ([]persistence.RunRow, error) {
	if !pgsql.Storable(tenant) {
		return nil, nil
	}
	of["tenant"] = pgsql.TextOrNull(tenant)
	return RunRows(ctx, s.DB, s.Conns, of)
}

// RunRows reads runs as read_runs gives them.
func RunRows(ctx context.Context, db *pgsql.DB, on pgsql.Querier, of pgsql.Named) ([]persistence.RunRow, error) {
	text, args := db.Bind("read_runs", of)
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return nil, pgerr.Translate(err)
	}
	list, err := pgx.CollectRows(rows, scanRunRow)
	return list, pgerr.Translate(err)
}

func scanRunRow(row pgx.CollectableRow) (persistence.RunRow, error) {
	var (
		r                                      persistence.RunRow
		hash, labels                           []byte
		name                                   *string
		key, reason, origin, step, class, text *string
		started, finished                      *time.Time
		state                                  int16
		parent                                 pgtype.UUID
	)
	err := row.Scan((*[16]byte)(&r.ID), &name, &hash, &r.Tenant, &key, &state, &r.Canceling, &reason, &origin, &labels,
		&r.CreatedAt, &started, &finished, &r.HasOutput, &r.Output, &step, &class, &text, &parent, &r.Parent.Step)
	if err != nil {
		return r, err
	}
	copy(r.Definition[:], hash)
	r.Workflow, r.Parent.Run = pgsql.OrZero(name), parent.Bytes
	r.State, r.Key, r.CancelReason, r.Origin = lifecycle.State(state), pgsql.OrZero(key), pgsql.OrZero(reason), pgsql.OrZero(origin)
	r.StartedAt, r.FinishedAt = pgsql.OrZero(started), pgsql.OrZero(finished)
	r.FailedStep, r.Class, r.Error = pgsql.OrZero(step), pgsql.OrZero(class), pgsql.OrZero(text)
	if labels != nil {
		err = json.Unmarshal(labels, &r.Labels)
	}
	return r, err
}

// readOf returns the rows of a statement about one run that the tenant has, or
// ErrRunNotFound.
func readOf[T any](ctx context.Context, s *Reader, tenant string, id workflow.RunID, name string, args pgsql.Named, scan pgx.RowToFunc[T]) ([]T, error) {
	ctx, leave, err := s.Caller(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err = s.exists(ctx, tenant, id); err != nil {
		return nil, err
	}
	text, values := s.Bind(name, args)
	rows, err := s.Conns.Query(ctx, text, values...)
	if err != nil {
		return nil, pgerr.Translate(err)
	}
	list, err := pgx.CollectRows(rows, scan)
	return list, pgerr.Translate(err)
}

// Tasks implements persistence.Runs.
func (s *Reader) Tasks(ctx context.Context, tenant string, id workflow.RunID, without ...persistence.Without) ([]persistence.TaskRow, error) {
	args := pgsql.Named{"run": [16]byte(id), "tenant": tenant, "outputs": outputs(without)}
	return readOf(ctx, s, tenant, id, "read_tasks", args, scanTaskRow)
}

// outputs reports whether a read brings outputs.
func outputs(without []persistence.Without) bool {
	return !slices.Contains(without, persistence.WithoutOutputs)
}

// StepNames implements persistence.Registry.
func (s *Reader) StepNames(ctx context.Context, tenant string, id workflow.RunID) ([]string, error) {
	type named struct {
		step int32
		name string
	}
	rows, err := readOf(ctx, s, tenant, id, "read_step_names", pgsql.Named{"run": [16]byte(id), "tenant": tenant},
		func(row pgx.CollectableRow) (n named, err error) { return n, row.Scan(&n.step, &n.name) })
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	names := make([]string, rows[len(rows)-1].step+1)
	for _, row := range rows {
		names[row.step] = row.name
	}
	return names, nil
}

func scanTaskRow(row pgx.CollectableRow) (persistence.TaskRow, error) {
	var (
		t                       persistence.TaskRow
		state, traits           int16
		pod, class, text        *string
		wakes, started, finised *time.Time
		child                   pgtype.UUID
	)
	err := row.Scan(&t.Step, &t.Name, &state, &traits, &t.Epoch, &t.Attempt, &t.Lost, &t.Pod, &pod, &t.Output, &t.OutputSize, &class, &text,
		&wakes, &started, &finised, &t.Parked, &child, &t.Map.Items, &t.Map.Left, &t.Map.Open, &t.Map.Failed)
	t.State, t.Child = lifecycle.State(state), child.Bytes
	if of := workflow.Traits(traits); t.State == lifecycle.Running || t.State == lifecycle.Completed && !of.Unattended() ||
		t.State == lifecycle.Waiting && of.Has(workflow.TraitChild) {
		t.Attempt++
	}
	t.PodName, t.Class, t.Error = pgsql.OrZero(pod), pgsql.OrZero(class), pgsql.OrZero(text)
	t.WakeAt, t.StartedAt, t.FinishedAt = pgsql.OrZero(wakes), pgsql.OrZero(started), pgsql.OrZero(finised)
	return t, err
}

func scanEvent(row pgx.CollectableRow) (lifecycle.Event, error) {
	var (
		e               lifecycle.Event
		kind            int16
		pod, delay      *int64
		attempt         *int32
		wakes           *time.Time
		by, class, text *string
		name            *string
	)
	err := row.Scan(&e.Step, &e.N, &kind, &e.At, &pod, &attempt, &delay, &wakes, &by, &class, &text, &name)
	e.Kind, e.Pod, e.Delay, e.Attempt = lifecycle.EventKind(kind), pgsql.OrZero(pod), time.Duration(pgsql.OrZero(delay)), pgsql.OrZero(attempt)
	e.PodName = pgsql.OrZero(name)
	e.WakeAt, e.By, e.Class, e.Text = pgsql.OrZero(wakes), pgsql.OrZero(by), pgsql.OrZero(class), pgsql.OrZero(text)
	return e, err
}

// RunByKey implements persistence.Intake.
func (s *Reader) RunByKey(ctx context.Context, of persistence.RunKey) (id workflow.RunID, err error) {
	if !pgsql.Storable(of.Tenant) || !pgsql.Storable(of.Workflow) || !pgsql.Storable(of.Key) {
		return id, persistence.ErrRunNotFound
	}
	ctx, leave, err := s.Caller(ctx)
	if err != nil {
		return id, err
	}
	defer leave()
	text, args := s.Bind("read_key", pgsql.Named{"tenant": of.Tenant, "workflow": of.Workflow, "key": of.Key})
	err = s.Conns.QueryRow(ctx, text, args...).Scan((*[16]byte)(&id))
	if errors.Is(err, pgx.ErrNoRows) {
		return id, persistence.ErrRunNotFound
	}
	return id, pgerr.Translate(err)
}

// EndedRuns implements persistence.Runs. Runs that cannot be read count as ended: the
// read of each says so.
func (s *Reader) EndedRuns(ctx context.Context, runs []workflow.RunID) (ended []workflow.RunID, err error) {
	err = pgsql.Bisect(runs, func(runs []workflow.RunID) error {
		found, err := s.endedRuns(ctx, runs)
		ended = append(ended, found...)
		return err
	}, pgerr.Unreadable, func(run workflow.RunID, _ error) error {
		ended = append(ended, run)
		return nil
	})
	return ended, err
}

func (s *Reader) endedRuns(ctx context.Context, runs []workflow.RunID) (ended []workflow.RunID, err error) {
	text, args := s.Bind("ended_runs", pgsql.Named{"runs": pgsql.UUIDs(runs)})
	err = pgerr.Retry(ctx, func(ctx context.Context) error {
		rows, err := s.Conns.Query(ctx, text, args...)
		if err != nil {
			return err
		}
		ended, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (id workflow.RunID, err error) {
			err = row.Scan((*[16]byte)(&id))
			return id, err
		})
		return err
	})
	return ended, err
}

// Payloads implements persistence.Runs.
func (s *Reader) Payloads(ctx context.Context, run workflow.RunID, steps []int32) ([][]byte, error) {
	ctx, cancel := pgerr.Bounded(ctx)
	defer cancel()
	payloads, err := s.readPayloads(ctx, run, steps)
	return payloads, pgerr.Translate(err)
}

func (s *Reader) readPayloads(ctx context.Context, run workflow.RunID, steps []int32) ([][]byte, error) {
	text, args := s.Bind("read_payloads", pgsql.Named{"run": [16]byte(run), "steps": steps})
	rows, err := s.Conns.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	at := make(map[int32]int, len(steps))
	for i, step := range steps {
		at[step] = i
	}
	payloads, found := make([][]byte, len(steps)), 0
	for ; rows.Next(); found++ {
		var step int32
		var payload []byte
		if err := rows.Scan(&step, &payload); err != nil {
			return nil, err
		}
		payloads[at[step]] = payload
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if found < len(steps) {
		return nil, persistence.ErrRunNotFound
	}
	return payloads, nil
}

// exists fails unless a run belongs to a tenant ("": any).
func (s *Reader) exists(ctx context.Context, tenant string, id workflow.RunID) error {
	if !pgsql.Storable(tenant) {
		return persistence.ErrRunNotFound
	}
	text, args := s.Bind("find_run", pgsql.Named{"run": [16]byte(id), "tenant": tenant})
	var found bool
	if err := s.Conns.QueryRow(ctx, text, args...).Scan(&found); err != nil {
		return pgerr.Translate(err)
	}
	if !found {
		return persistence.ErrRunNotFound
	}
	return nil
}
