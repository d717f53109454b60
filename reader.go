package troupe

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Reader reads runs, and what work waits for. It changes nothing and decides nothing.
// Engine.Reader gives that of an engine, OpenReader one without an engine, for tools.
// Each call about runs names a tenant: "" is the default one of an engine, and all of
// OpenReader's. It is safe for concurrent use.
type Reader struct {
	open func() (reading, error)
	shut func() error // nil: it has no connections of its own
}

// What a call of a reader can meet, beside [ErrRunNotFound]. Use errors.Is.
var (
	// ErrStepNotFound: the definition of the run has no step of this name.
	ErrStepNotFound = persistence.ErrStepNotFound
	// ErrDefinitionNotFound: no definition of this hash is stored.
	ErrDefinitionNotFound = errors.New("definition not found")
)

// reading is where a reader reads.
type reading struct {
	store  readStore
	tenant func(string) string
	failed func(error) error        // what a caller is told of an error
	known  func(*explain.Situation) // adds to a situation what the tables do not hold

	explaining chan struct{} // has room for the one status that asks why steps wait
}

// readStore is what a reader needs of a store.
type readStore interface {
	persistence.Reader
	persistence.Runs
	persistence.Situations
	// StepNames and Definition are those of persistence.Registry.
	StepNames(ctx context.Context, tenant string, run workflow.RunID) ([]string, error)
	Definition(ctx context.Context, hash workflow.Hash) (*workflow.Graph, error)
}

// Reader returns what reads the runs that this engine can reach, once it runs.
func (e *Engine) Reader() *Reader {
	return &Reader{open: func() (reading, error) {
		store, err := e.running()
		if err != nil {
			return reading{}, err
		}
		return reading{store: store, tenant: e.tenant, failed: e.whileRunning, known: e.knows, explaining: e.explaining}, nil
	}}
}

// OpenReader reads a schema without an engine, for tools: an empty tenant stands for
// all. A hot standby will do. The pool stays the caller's; Close gives back the
// connections that are the reader's own.
func OpenReader(ctx context.Context, pool *pgxpool.Pool, schema string) (*Reader, error) {
	if pool == nil {
		return nil, errors.New("open reader: the pool is nil: pass a *pgxpool.Pool of the database to use")
	}
	config := Config{Schema: schema}
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("open reader: %w", err)
	}
	store, err := openReads(ctx, pool, config.withDefaults().Schema)
	if err != nil {
		return nil, fmt.Errorf("open reader: %w", err)
	}
	desk := reading{
		store: store, tenant: func(name string) string { return name }, failed: func(err error) error { return err },
		known: func(s *explain.Situation) { s.TenantLimitUnknown = true }, explaining: make(chan struct{}, 1),
	}
	return &Reader{
		open: func() (reading, error) { return desk, nil },
		shut: func() error { store.Close(); return nil },
	}, nil
}

// Close gives back what OpenReader opened.
func (r *Reader) Close() error {
	if r.shut == nil {
		return nil
	}
	return r.shut()
}

// readFrom makes one call of a reader.
func readFrom[T any](ctx context.Context, r *Reader, do func(ctx context.Context, from reading) (T, error)) (T, error) {
	return called(ctx, func(ctx context.Context) (T, error) {
		from, err := r.open()
		if err != nil {
			var none T
			return none, err
		}
		value, err := do(ctx, from)
		return value, from.failed(err)
	})
}

// Run reads a run and its steps, without elements of maps, or returns [ErrRunNotFound]. No payload is read: of
// each output StepStatus.OutputSize says how large it is. Engine.Status brings
// outputs as well.
func (r *Reader) Run(ctx context.Context, tenant string, run RunID) (RunStatus, error) {
	return readFrom(ctx, r, func(ctx context.Context, from reading) (RunStatus, error) {
		return from.status(ctx, tenant, run, persistence.WithoutOutputs)
	})
}

func (from *reading) status(ctx context.Context, tenant string, run RunID, without ...persistence.Without) (RunStatus, error) {
	row, err := from.store.Run(ctx, from.tenant(tenant), run, persistence.WithoutOutputs)
	if err != nil {
		return RunStatus{}, err
	}
	tasks, err := from.store.Tasks(ctx, from.tenant(tenant), run, without...)
	if err != nil {
		return RunStatus{}, err
	}
	status := runStatus(row, tasks)
	if status.Steps == nil {
		status.Steps = []StepStatus{} // it has none yet
	}
	status.ParentStep = from.parentStep(ctx, row)
	from.explainWaiting(ctx, &status)
	return status, nil
}

// parentStep returns the name of the step that began a run; "": there is none, or it cannot be
// read any more.
func (from *reading) parentStep(ctx context.Context, row persistence.RunRow) string {
	of := row.Parent
	if of.Run.IsZero() {
		return ""
	}
	names, err := from.store.StepNames(ctx, row.Tenant, of.Run)
	if err != nil || int(of.Step) >= len(names) {
		return ""
	}
	return names[of.Step]
}

// Runs lists runs, newest first, one page a call. A filter that no run can match, such as
// one with a NUL character, is an error that names the field and the remedy.
func (r *Reader) Runs(ctx context.Context, filter Filter) (RunPage, error) {
	return readFrom(ctx, r, func(ctx context.Context, from reading) (RunPage, error) { return from.runs(ctx, filter) })
}

// Explain says why a run does not move, as [Run.Explain], or returns
// [ErrRunNotFound]. A reader without an engine knows no limit of tenants.
func (r *Reader) Explain(ctx context.Context, tenant string, run RunID) ([]Reason, error) {
	return readFrom(ctx, r, func(ctx context.Context, from reading) ([]Reason, error) {
		situation, err := from.situation(ctx, tenant, run)
		if err != nil {
			return nil, err
		}
		return explain.Explain(situation), nil
	})
}

func (from *reading) situation(ctx context.Context, tenant string, run RunID) (explain.Situation, error) {
	situation, err := from.store.Situation(ctx, from.tenant(tenant), run)
	if err == nil {
		from.known(&situation)
	}
	return situation, err
}
