package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// fixture is what these tests share: a database with graphs registered in it, and short
// names for frequent calls.
type fixture struct {
	*database
	ctx      context.Context
	handlers []int32
	claims   *atomic.Uint64
}

func newFixture(d *database, graphs ...*workflow.Graph) *fixture {
	d.t.Helper()
	numbers, err := d.store.RegisterDefinitions(d.t.Context(), graphs, []string{"other"})
	require.NoError(d.t, err)
	return &fixture{database: d, ctx: d.t.Context(), handlers: slices.Concat(numbers...), claims: &atomic.Uint64{}}
}

// withCounters returns a fixture on an empty database, with a pod, and with the counters of
// some tenants: a run of each has ended.
func withCounters(t *testing.T, g *workflow.Graph, tenants ...string) (*fixture, int64) {
	t.Helper()
	k := newFixture(openDatabase(t, Options{}), g)
	pod := k.join(time.Hour)
	for _, tenant := range tenants {
		k.start(g, tenant, 1)
	}
	k.finish(pod)
	return k, pod
}

// draft returns n triggers of a tenant.
func (k *fixture) draft(g *workflow.Graph, tenant string, n int) []persistence.Trigger {
	list := make([]persistence.Trigger, n)
	for i := range list {
		var random [10]byte
		_, _ = rand.Read(random[:])
		list[i] = persistence.Trigger{
			Run: workflow.NewRunID(time.Now(), random), Definition: g.Hash, Workflow: g.Name, Tenant: tenant,
			Input: []byte(`"input"`), Origin: "api",
		}
	}
	return list
}

// ask stores triggers and returns what became of each.
func (k *fixture) ask(list ...persistence.Trigger) []persistence.TriggerAnswer {
	k.t.Helper()
	out, err := k.store.TriggerRuns(k.ctx, list, persistence.GrantRequest{})
	require.NoError(k.t, err)
	return out.Answers
}

// start stores n runs of a tenant.
func (k *fixture) start(g *workflow.Graph, tenant string, n int) []workflow.RunID {
	k.t.Helper()
	var ids []workflow.RunID
	for part := range slices.Chunk(k.draft(g, tenant, n), persistence.TriggerBatchMax) {
		out, err := k.store.TriggerRuns(k.ctx, part, persistence.GrantRequest{})
		require.NoError(k.t, err)
		for i, answer := range out.Answers {
			require.Equal(k.t, persistence.Triggered, answer.Result, "%v", answer.Err)
			ids = append(ids, part[i].Run)
		}
	}
	return ids
}

// newNaps returns a fixture with a workflow whose sleep is over when the next call begins, a
// pod, and the epoch of its term.
func newNaps(t *testing.T) (k *fixture, g *workflow.Graph, pod, epoch int64) {
	t.Helper()
	g = storetest.Nap(time.Nanosecond)
	k = newFixture(openDatabase(t, Options{}), g)
	pod = k.join(time.Hour)
	epoch, err := k.store.BumpEpoch(k.ctx, pod)
	require.NoError(t, err)
	return k, g, pod, epoch
}

func (k *fixture) join(ttl time.Duration) int64 {
	k.t.Helper()
	pod, _, err := k.store.JoinPod(k.ctx, persistence.PodInfo{
		Name: "pod", Handlers: k.handlers, Queues: []string{registry.DefaultQueue}, Slots: 10, TTL: ttl, Protocol: persistence.Protocol,
	})
	require.NoError(k.t, err)
	return pod
}

func (k *fixture) claimID() (id persistence.ClaimID) {
	binary.BigEndian.PutUint64(id[8:], k.claims.Add(1))
	return id
}

func (k *fixture) request(pod int64, limit int) persistence.ClaimRequest {
	return persistence.ClaimRequest{
		GrantRequest: persistence.GrantRequest{Pod: pod, Claim: k.claimID(), Queues: []string{registry.DefaultQueue}, Limit: limit, Handlers: k.handlers}, Suspects: true,
	}
}

func (k *fixture) claim(pod int64, limit int) []persistence.Grant {
	k.t.Helper()
	out, err := k.store.ClaimTasks(k.ctx, k.request(pod, limit))
	require.NoError(k.t, err)
	return out.Grants
}

// completion reports tasks as completed: those that have their output already, with that.
func (k *fixture) completion(pod int64, grants ...persistence.Grant) persistence.Record {
	record := persistence.Record{GrantRequest: persistence.GrantRequest{Pod: pod, Claim: k.claimID()}, MaxLost: 3, CancelGrace: time.Minute}
	for _, g := range grants {
		output := []byte(`"` + g.Step + `"`)
		if g.Kept {
			output = g.LastProgress
		}
		record.Transitions = append(record.Transitions, persistence.Transition{Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Succeeded, Output: output})
	}
	return record
}

// send records and returns what became of each transition.
func (k *fixture) send(record persistence.Record) []lifecycle.Answer {
	k.t.Helper()
	out, err := k.store.RecordTransitions(k.ctx, record)
	for range 3 { // on a busy machine the server may end a transaction that stands still
		if !errors.Is(err, persistence.ErrUnavailable) {
			break
		}
		out, err = k.store.RecordTransitions(k.ctx, record)
	}
	require.NoError(k.t, err)
	answers := make([]lifecycle.Answer, len(out.Answers))
	for i, answer := range out.Answers {
		answers[i] = answer.Result
	}
	return answers
}

func (k *fixture) complete(pod int64, grants ...persistence.Grant) {
	k.t.Helper()
	for _, answer := range k.send(k.completion(pod, grants...)) {
		require.Equal(k.t, lifecycle.Moved, answer)
	}
}

// finish claims and completes until nothing is ready.
func (k *fixture) finish(pod int64) {
	k.t.Helper()
	for grants := k.claim(pod, 500); len(grants) > 0; grants = k.claim(pod, 500) {
		k.complete(pod, grants...)
	}
}

func (k *fixture) state(id workflow.RunID) lifecycle.State {
	k.t.Helper()
	row, err := k.store.Run(k.ctx, "", id)
	require.NoError(k.t, err)
	return row.State
}

func (k *fixture) requireSound() {
	k.t.Helper()
	tables, err := k.store.Snapshot(k.ctx)
	require.NoError(k.t, err)
	require.Empty(k.t, snapshot.Check(tables))
}

// hold locks what a statement locks in another session, and returns how to release it.
func (k *fixture) hold(sql string, args ...any) (release func()) {
	k.t.Helper()
	conn, err := pgx.ConnectConfig(k.ctx, k.user.Config().ConnConfig)
	require.NoError(k.t, err)
	k.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(k.ctx)) })
	tx, err := conn.Begin(k.ctx)
	require.NoError(k.t, err)
	_, err = tx.Exec(k.ctx, strings.ReplaceAll(sql, "{schema}", k.schema), args...)
	require.NoError(k.t, err)
	return func() {
		k.t.Helper()
		require.NoError(k.t, tx.Rollback(k.ctx))
	}
}

// counter counts the statements of a store by name.
type counter struct {
	mu    sync.Mutex
	names []string
}

var (
	_ pgx.QueryTracer = (*counter)(nil)
	_ pgx.BatchTracer = (*counter)(nil)
)

// TraceQueryStart implements pgx.QueryTracer.
func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	c.note(data.SQL)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		c.note(q.SQL)
	}
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (c *counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (c *counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (c *counter) note(sql string) {
	name := strings.Fields(sql)[0]
	if after, ok := strings.CutPrefix(sql, "/* troupe "); ok {
		name, _, _ = strings.Cut(after, " ")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = append(c.names, name)
}

// take returns the statements since the last call.
func (c *counter) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := c.names
	c.names = nil
	return names
}

// within shows how long f takes; `make test-full` judges it.
func within(t testing.TB, limit time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	pgtest.Within(t, limit, time.Since(start), "the call")
}

// ends has all runs complete.
func (k *fixture) ends(pod int64, ids []workflow.RunID) {
	k.t.Helper()
	k.finish(pod)
	for _, id := range ids {
		require.Equal(k.t, lifecycle.Completed, k.state(id))
	}
	k.requireSound()
}

// inTx records a completion in the transaction of a step that executes sql.
func (k *fixture) inTx(record persistence.Record, sql string) (persistence.Recorded, error) {
	return k.store.RecordInTx(k.ctx, record, func(ctx context.Context, tx any) (persistence.Transition, error) {
		own, ok := tx.(pgx.Tx)
		require.True(k.t, ok)
		_, err := own.Exec(ctx, sql)
		return record.Transitions[0], err
	})
}

// bump makes a pod the leader and returns its epoch.
func (k *fixture) bump(pod int64) (epoch int64) {
	k.t.Helper()
	epoch, err := k.store.BumpEpoch(k.ctx, pod)
	require.NoError(k.t, err)
	return epoch
}

// fire fires timers.
func (k *fixture) fire(epoch int64, limit int) persistence.Fired {
	k.t.Helper()
	out, err := k.store.FireTimers(k.ctx, epoch, limit)
	require.NoError(k.t, err)
	return out
}

// expire takes over the tasks of dead pods.
func (k *fixture) expire(epoch int64, limit int) persistence.Expired {
	k.t.Helper()
	out, err := k.store.ExpirePods(k.ctx, epoch, 3, limit, time.Time{})
	require.NoError(k.t, err)
	return out
}

// drain begins the runs of committed submissions.
func (k *fixture) drain(limit int) persistence.Drained {
	k.t.Helper()
	out, err := k.store.DrainIntake(k.ctx, limit)
	require.NoError(k.t, err)
	return out
}

// park parks and unparks tasks.
func (k *fixture) park(epoch int64, limit int) persistence.Parked {
	k.t.Helper()
	out, err := k.store.ParkTasks(k.ctx, epoch, limit)
	require.NoError(k.t, err)
	return out
}

// triggerInTx stores a run in a transaction of its own on a pool.
func (k *fixture) triggerInTx(pool *pgxpool.Pool, one persistence.Trigger) error {
	return pgx.BeginFunc(k.ctx, pool, func(tx pgx.Tx) error {
		_, err := k.store.TriggerInTx(k.ctx, tx, one)
		return err
	})
}

// leave hands back what a pod holds.
func (k *fixture) leave(pod int64) persistence.Wake {
	k.t.Helper()
	out, err := k.store.LeavePod(k.ctx, pod)
	require.NoError(k.t, err)
	return out
}

// claimed claims tasks.
func (k *fixture) claimed(request persistence.ClaimRequest) persistence.Claimed {
	k.t.Helper()
	out, err := k.store.ClaimTasks(k.ctx, request)
	require.NoError(k.t, err)
	return out
}

// record stores reports.
func (k *fixture) record(record persistence.Record) persistence.Recorded {
	k.t.Helper()
	out, err := k.store.RecordTransitions(k.ctx, record)
	require.NoError(k.t, err)
	return out
}

// archived moves runs into history.
func (k *fixture) archived(epoch int64, order persistence.Archive) persistence.Archived {
	k.t.Helper()
	out, err := k.store.ArchiveRuns(k.ctx, epoch, order)
	require.NoError(k.t, err)
	return out
}

// renew renews a lease.
func (k *fixture) renew(renewal persistence.Renewal) persistence.Renewed {
	k.t.Helper()
	out, err := k.store.RenewPod(k.ctx, renewal)
	require.NoError(k.t, err)
	return out
}

// trigger stores runs.
func (k *fixture) trigger(list []persistence.Trigger, take persistence.GrantRequest) persistence.Triggers {
	k.t.Helper()
	out, err := k.store.TriggerRuns(k.ctx, list, take)
	require.NoError(k.t, err)
	return out
}

// cancel cancels a run.
func (k *fixture) cancel(order persistence.Cancel) persistence.Canceled {
	k.t.Helper()
	out, err := k.store.CancelRun(k.ctx, order)
	require.NoError(k.t, err)
	return out
}

// withPod returns a fixture on a database of its own, with a pod.
func withPod(t *testing.T, graphs ...*workflow.Graph) (*fixture, int64) {
	t.Helper()
	k := newFixture(openDatabase(t, Options{}), graphs...)
	return k, k.join(time.Hour)
}
