package readers

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/sessions"
	"github.com/troupe-dev/troupe/workflow"
)

// Inspector reads why runs do not move, on a pool of the caller's. It is for
// programs that look at a schema and are no pod. It is safe for concurrent use.
type Inspector struct {
	pool       beginner
	schema     string
	statements pgsql.Statements
}

// beginner is a pool.
type beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

var _ persistence.Situations = (*Inspector)(nil)

// NewInspector returns an inspector of a schema ("": troupe). It connects to
// nothing yet.
func NewInspector(pool *pgxpool.Pool, schema string) (*Inspector, error) {
	if schema == "" {
		schema = "troupe"
	}
	texts, err := pgsql.Load(schema)
	if err != nil {
		return nil, err
	}
	return &Inspector{pool: pool, schema: schema, statements: texts}, nil
}

// Situation implements persistence.Situations.
func (s *Reader) Situation(ctx context.Context, tenant string, run workflow.RunID) (explain.Situation, error) {
	ctx, leave, err := s.ExplainCaller(ctx)
	if err != nil {
		return explain.Situation{}, err
	}
	defer leave()
	i := Inspector{pool: s.Conns, schema: s.Schema, statements: s.Statements}
	return i.Situation(ctx, tenant, run)
}

// How long a situation may wait for a lock, and a statement of it may take.
const (
	situationPatience = "500ms"
	situationTimeout  = "10s"
)

// Situation implements persistence.Situations. Locks are read first, from the
// catalog: they may be why nothing else can be read.
func (i *Inspector) Situation(ctx context.Context, tenant string, run workflow.RunID) (explain.Situation, error) {
	if !pgsql.Storable(tenant) {
		return explain.Situation{}, persistence.ErrRunNotFound
	}
	out := explain.Situation{Run: run}
	err := i.read(ctx, func(r *situationReader) error {
		return errors.Join(r.scan("read_clock", pgsql.Named{}, &out.Now), r.locks(&out, nil, nil))
	})
	if err != nil {
		return explain.Situation{}, err
	}
	locks, touched, now := out.Locks, out.Touched, out.Now
	err = i.read(ctx, func(r *situationReader) error {
		out = explain.Situation{Run: run, Locks: locks, Touched: touched}
		return r.situation(&out, tenant)
	})
	switch {
	case errors.Is(err, pgerr.ErrLockTimeout):
		return explain.Situation{Run: run, Now: now, Locks: locks, Unreadable: true}, nil
	case err != nil:
		return explain.Situation{}, err
	case out.State.Terminal():
		out.Locks, out.Touched = nil, nil
	}
	return out, nil
}

// read runs use in a transaction that sees one instant and changes nothing.
func (i *Inspector) read(ctx context.Context, use func(*situationReader) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgerr.Translate(pgx.BeginTxFunc(ctx, i.pool, options, func(tx pgx.Tx) error {
		if err := sessions.ReadInstants(ctx, tx.Conn()); err != nil {
			return err
		}
		settings := sessions.Settings()
		settings["lock_timeout"], settings["statement_timeout"] = situationPatience, situationTimeout
		names := slices.Sorted(maps.Keys(settings))
		values := make([]string, len(names))
		for n, name := range names {
			values[n] = settings[name]
		}
		r := &situationReader{ctx: ctx, i: i, tx: tx}
		if err := r.each("set_local", pgsql.Named{"names": names, "values": values}, []any{nil}, func() {}); err != nil {
			return err
		}
		return use(r)
	}))
}

// situationReader reads one situation in a transaction.
type situationReader struct {
	ctx context.Context //nolint:containedctx // a reader does not outlive the call
	i   *Inspector
	tx  pgx.Tx
}

// each calls use for every row, scanned into the targets.
func (r *situationReader) each(name string, args pgsql.Named, targets []any, use func()) error {
	text, values := r.i.statements.Bind(name, args)
	rows, err := r.tx.Query(r.ctx, text, values...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, targets, func() error { use(); return nil })
	return err
}

// scan reads the only row.
func (r *situationReader) scan(name string, args pgsql.Named, targets ...any) error {
	text, values := r.i.statements.Bind(name, args)
	return r.tx.QueryRow(r.ctx, text, values...).Scan(targets...)
}

// protocolOf returns the lowest protocol of pods that know workflows whose steps have some traits.
func protocolOf(traits workflow.Traits) int16 {
	var g workflow.Graph
	if traits.Has(workflow.TraitMachine) {
		g.Nodes = append(g.Nodes, workflow.Node{Kind: workflow.Machine})
	}
	if traits.Has(workflow.TraitWaits) {
		g.Nodes = append(g.Nodes, workflow.Node{Kind: workflow.Wait})
	}
	if traits.Has(workflow.TraitChild) {
		g.Nodes = append(g.Nodes, workflow.Node{Kind: workflow.ChildRun})
	}
	if traits.Has(workflow.TraitMap) {
		g.Nodes = append(g.Nodes, workflow.Node{Kind: workflow.Map})
	}
	return persistence.ProtocolOf(&g)
}

func (r *situationReader) situation(out *explain.Situation, tenant string) error {
	var state int16
	var group int32
	var starts, fenced *time.Time
	var leader *int64
	var traits int16
	var parent pgtype.UUID
	err := r.scan("explain_run", pgsql.Named{"run": [16]byte(out.Run), "tenant": tenant},
		&out.Now, &state, &out.Canceling, &out.CancelReason, &group, &out.Undefined, &starts, &fenced, &leader, &traits, &parent)
	if errors.Is(err, pgx.ErrNoRows) {
		return persistence.ErrRunNotFound
	}
	if err != nil {
		return err
	}
	out.Parent = parent.Bytes
	if out.State = lifecycle.State(state); out.State.Terminal() {
		out.Canceling, out.CancelReason, out.Undefined = false, "", false
		return r.end(out)
	}
	out.Protocol = protocolOf(workflow.Traits(traits))
	out.Submitted, out.StartsAt, out.Fenced = group == 0, pgsql.OrZero(starts), pgsql.OrZero(fenced)
	if err := r.leader(out, pgsql.OrZero(leader)); err != nil {
		return err
	}
	queues, handlers, err := r.tasks(out)
	if err != nil {
		return err
	}
	if err := r.lines(out, queues); err != nil {
		return err
	}
	if err := r.handlers(out, handlers); err != nil {
		return err
	}
	if err := r.pods(out, handlers); err != nil {
		return err
	}
	if group != 0 {
		var of int32
		args := pgsql.Named{"groups": []int32{group}, "runs": pgsql.OrEmpty(pgsql.UUIDs(nil)), "steps": []int32{}}
		if err := r.each("count_running", args, []any{&of, &out.TenantBusy}, func() {}); err != nil {
			return err
		}
	}
	return r.rowLocks(out)
}

// end reads how the run ended.
func (r *situationReader) end(out *explain.Situation) error {
	var f explain.Failed
	var name *string
	var at, failed, requeued *time.Time
	var as *[16]byte
	targets := []any{&at, &out.End.CancelReason, &out.End.CanceledBy, &name, &failed, &f.Attempts, &f.Lost, &f.Class, &f.Error, &requeued, &as}
	args := pgsql.Named{"run": [16]byte(out.Run), "outputs": false, "limit": explain.FailedMax}
	return r.each("explain_end", args, targets, func() {
		out.End.At = pgsql.OrZero(at)
		f.At, f.RequeuedAt, f.RequeuedAs = pgsql.OrZero(failed), pgsql.OrZero(requeued), workflow.RunID(pgsql.OrZero(as))
		if f.Name = pgsql.OrZero(name); f.Name != "" {
			out.End.Failed = append(out.End.Failed, f)
		}
	})
}

// leader reads which session has the leader's lock. The pod that led last still does if its
// session is that.
func (r *situationReader) leader(out *explain.Situation, last int64) error {
	var l explain.Lock
	var leads bool
	var silent float64
	args := pgsql.Named{"schema": r.i.schema, "holder": last, "key": leaderKey(r.i.schema)}
	return r.each("explain_leader", args, []any{&l.PID, &l.Name, &l.Prepared, &leads, &silent}, func() {
		if leads {
			out.Leader = last
		}
		if l.PID != 0 || l.Prepared != "" {
			holder := l
			holder.Silent = time.Duration(silent * float64(time.Second))
			out.LeaderLock = &holder
		}
	})
}

// leaderKey is cluster/postgres.LeaderKey, which this room may not see.
func leaderKey(schema string) int64 {
	h := fnv.New64a()
	h.Write([]byte("troupe leader\x00" + schema))
	return int64(h.Sum64())
}

// rowLocks adds the sessions that have locked rows of the run.
func (r *situationReader) rowLocks(out *explain.Situation) error {
	var pid int32
	var name string
	var pids []int32
	var prepared []string
	err := r.each("explain_lockers", pgsql.Named{"run": [16]byte(out.Run)}, []any{&pid, &name}, func() {
		if name != "" {
			prepared = append(prepared, name)
		} else {
			pids = append(pids, pid)
		}
	})
	if err != nil || len(pids)+len(prepared) == 0 {
		return err
	}
	out.Locks, out.Touched = nil, nil
	return r.locks(out, pids, prepared)
}

// locks reads the sessions that have locked tables of the schema, the given sessions and
// prepared transactions, and the sessions that have written rows which others skip while
// they are locked.
func (r *situationReader) locks(out *explain.Situation, pids []int32, prepared []string) error {
	var l explain.Lock
	var age float64
	targets := []any{&l.PID, &l.Name, &l.Query, &age, &l.Idle, &l.Waiting, &l.Prepared, &l.Tables}
	return r.each("explain_locks", pgsql.Named{"schema": r.i.schema, "pids": pgsql.OrEmpty(pids), "prepared": pgsql.OrEmpty(prepared)}, targets, func() {
		l.Age = time.Duration(age * float64(time.Second))
		if l.Tables != nil {
			out.Touched = append(out.Touched, l)
			return
		}
		out.Locks = append(out.Locks, l)
	})
}
