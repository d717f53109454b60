package postgres

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// A pod does not lose its lease because its other calls keep the pool busy.
func TestRenewalsDoNotQueueForConnections(t *testing.T) {
	t.Parallel()
	d := openDatabase(t, Options{PoolSize: 3})
	pod, _, err := d.store.JoinPod(t.Context(), persistence.PodInfo{Name: "p", TTL: time.Minute})
	require.NoError(t, err)
	for range 3 {
		conn, err := d.store.Pool().Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	renewed, err := d.store.RenewPod(ctx, persistence.Renewal{Pod: pod, TTL: time.Minute})
	require.NoError(t, err)
	require.Equal(t, 1, renewed.Pods)
}

// A busy pool answers a ping, and a pool behind a proxy is pinged through the proxy.
func TestAPoolThatIsBusyAnswers(t *testing.T) {
	t.Parallel()
	d := openDatabase(t, Options{PoolSize: 3, Proxied: true})
	for range 3 {
		conn, err := d.store.Pool().Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, d.store.PingPool(ctx))
	require.Equal(t, 1, d.store.proxied.Connections())
	d = openDatabase(t, Options{})
	require.NoError(t, d.store.PingPool(ctx), "on the connection of the lease")
	require.Equal(t, int32(0), d.store.Pool().Stat().AcquiredConns())
}

// TestRenewalKeepsAClaimThatGrows sends a record again, with more to report,
// while a renewal is under way that has found nothing held of its claim: the
// child that is granted under the claim must be found again.
func TestRenewalKeepsAClaimThatGrows(t *testing.T) {
	t.Parallel()
	g := storetest.Chain(2)
	k, pod := withPod(t, g)
	k.start(g, "a", 2)
	roots := k.claim(pod, 2)
	record := k.completion(pod, roots[0])
	record.Limit, record.Handlers, record.Queues = 5, k.handlers, []string{registry.DefaultQueue}
	out := k.record(record)
	require.Len(t, out.Grants, 1)
	k.complete(pod, out.Grants...)

	release := k.hold(`select from {schema}.pods for no key update`)
	renewed := make(chan error, 1)
	go func() {
		_, err := k.store.RenewPod(k.ctx, persistence.Renewal{Pod: pod, TTL: time.Hour})
		renewed <- err
	}()
	require.Eventually(t, func() bool {
		return value[int](k.database, `select count(*) from pg_locks where not granted`) > 0
	}, 30*time.Second, 10*time.Millisecond, "the renewal waits")
	record.Transitions = append(record.Transitions, k.completion(pod, roots[1]).Transitions...)
	out = k.record(record)
	require.Len(t, out.Grants, 1)
	k.requireSound()
	release()
	require.NoError(t, <-renewed)
	k.requireSound()

	k.complete(pod, out.Grants...)
	k.renew(persistence.Renewal{Pod: pod, TTL: time.Hour})
	require.Zero(t, value[int](k.database, `select count(*) from {schema}.claims`))
}

// TestRenewalDoesNotWaitForClaims renews while another session locks a claim without
// running tasks: a later renewal removes it.
func TestRenewalDoesNotWaitForClaims(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k, pod := withPod(t, g)
	k.start(g, "a", 1)
	k.complete(pod, k.claim(pod, 1)...)
	renew := func() {
		k.renew(persistence.Renewal{Pod: pod, TTL: time.Hour})
	}
	release := k.hold(`select from {schema}.claims for update`)
	within(t, soon, renew)
	require.Equal(t, 1, value[int](k.database, `select count(*) from {schema}.claims`))
	release()
	renew()
	require.Zero(t, value[int](k.database, `select count(*) from {schema}.claims`))
}

// TestRenewalOutlivesLockedTables renews while another session locks a table that the
// comparison reads, as VACUUM FULL, ALTER TABLE or an operator may: the lease is extended
// within two fifths of its length.
func TestRenewalOutlivesLockedTables(t *testing.T) {
	t.Parallel()
	open := schemas(t)
	for _, table := range []string{"tasks", "workflow_runs", "claims", "task_progress"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			g := storetest.Single()
			k := newFixture(open(t), g)
			k.start(g, "a", 2)
			pod := k.join(time.Minute)
			grants := k.claim(pod, 2)
			renewal := persistence.Renewal{Pod: pod, Held: []persistence.Held{
				{Task: grants[0].Task, Epoch: grants[0].Epoch, Progress: []byte("1")},
				{Task: grants[1].Task, Epoch: grants[1].Epoch - 1},
			}}
			release := k.hold(`lock table {schema}.` + table + ` in access exclusive mode`)
			for _, ttl := range []time.Duration{1250 * time.Millisecond, 5 * time.Second, 1250 * time.Millisecond, 2 * time.Second} {
				renewal.TTL = ttl
				ctx, cancel := context.WithTimeout(k.ctx, ttl*2/5)
				renewed, err := k.store.RenewPod(ctx, renewal)
				cancel()
				require.ErrorIs(t, err, pgerr.ErrLockTimeout)
				require.Equal(t, ttl, renewed.Expires.Sub(renewed.Now))
				require.True(t, renewed.Expires.Equal(value[time.Time](k.database, `select expires_at from {schema}.pods`)))
				require.Equal(t, 1, renewed.Pods)
				require.Empty(t, renewed.Lost)
				require.Empty(t, renewed.Unheld)
			}
			require.Equal(t, 1, k.store.lease.Connections(), "no connection was given up")
			release()
			renewal.TTL = time.Minute
			renewed := k.renew(renewal)
			require.Len(t, renewed.Lost, 1)
			require.Len(t, renewed.Unheld, 1)
			require.Equal(t, "1", string(value[[]byte](k.database, `select progress from {schema}.task_progress`)))
		})
	}
}

// TestRenewalAloneOfADeadPod is refused as any other.
func TestRenewalAloneOfADeadPod(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	k.exec(`update {schema}.pods set dead = true`)
	release := k.hold(`lock table {schema}.tasks in access exclusive mode`)
	defer release()
	_, err := k.store.RenewPod(k.ctx, persistence.Renewal{Pod: pod, TTL: 2 * time.Second})
	require.ErrorIs(t, err, persistence.ErrPodDead)
}

// TestRenewalThatIsCanceled keeps the lease when an administrator cancels the statement.
func TestRenewalThatIsCanceled(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	release := k.hold(`lock table {schema}.tasks in access exclusive mode`)
	defer release()
	type answer struct {
		renewed persistence.Renewed
		err     error
	}
	answers := make(chan answer, 1)
	go func() {
		renewed, err := k.store.RenewPod(k.ctx, persistence.Renewal{Pod: pod, TTL: time.Hour})
		answers <- answer{renewed, err}
	}()
	require.Eventually(t, func() bool {
		return value[int](k.database, `select count(*) from (select pg_cancel_backend(a.pid) from pg_stat_activity a
			where a.datname = current_database() and a.query like '%troupe renew_pod %' and a.wait_event_type = 'Lock') c`) > 0
	}, 30*time.Second, 10*time.Millisecond)
	got := <-answers
	require.True(t, pgerr.HasCode(got.err, pgerr.CodeQueryCanceled))
	require.False(t, got.renewed.Expires.IsZero(), "the lease was renewed")
}

// A claim that is under way while its pod leaves, and commits after the pod's tasks were
// listed, is handed back as well: nothing would take its task from a pod that is gone.
func TestAPodLeavesWhileItClaims(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	k.start(storetest.Single(), "a", 1)
	request := k.request(pod, 1)
	queue, err := k.store.Queue(k.ctx, request.Queue())
	require.NoError(t, err)
	tx, err := k.user.Begin(k.ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(k.ctx) }()
	claimed, _, err := k.store.claim(k.ctx, tx, request, queue, nil, persistence.InlinePayloadMax)
	require.NoError(t, err)
	require.Len(t, claimed.Grants, 1)
	wakes := make(chan persistence.Wake, 1)
	go func() {
		for k.ctx.Err() == nil { // it waits for the lock for a second at most
			if wake, err := k.store.LeavePod(k.ctx, pod); err == nil {
				wakes <- wake
				return
			}
		}
	}()
	require.Eventually(t, func() bool {
		return value[int](k.database, `select count(*) from pg_stat_activity a
			where a.datname = current_database() and a.query like '%troupe lock_pod %' and a.wait_event_type = 'Lock'`) > 0
	}, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, tx.Commit(k.ctx))
	require.Equal(t, 1, (<-wakes).Ready[0].Count)
	require.Zero(t, value[int](k.database, `select count(*) from {schema}.pods`))
	require.Equal(t, int(lifecycle.Queued), value[int](k.database, `select state from {schema}.tasks`))
}

// A lease that was renewed while the clock was ahead ends within twice its length once the
// clock is right, unless it is renewed. A lease of unknown length is kept as it is.
func TestALeaseOfAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	k := newFixture(schemas(t)(t), storetest.Single())
	const ttl = 200 * time.Millisecond
	leader, old, gone := k.join(time.Hour), k.join(time.Hour), k.join(time.Hour)
	k.start(storetest.Single(), "a", 1)
	k.claim(gone, 1)
	k.exec(`update {schema}.pods set ttl = make_interval(secs => $2) where id <> $1`, leader, ttl.Seconds())
	k.exec(`update {schema}.pods set ttl = null where id = $1`, old)
	epoch := k.bump(leader)
	out := k.expire(epoch, 10)
	require.Empty(t, out.Pods, "it may live, and has the time to renew")
	require.Equal(t, 3, out.Live)
	require.LessOrEqual(t, out.NextExpiry.Sub(value[time.Time](k.database, "select clock_timestamp()")), ttl)
	require.Eventually(t, func() bool {
		out = k.expire(epoch, 10)
		return len(out.Pods) > 0
	}, 10*time.Second, ttl/4)
	require.Equal(t, []int64{gone}, out.Pods)
	require.Equal(t, 1, out.Tasks)
	require.Equal(t, 2, out.Live)
}

// Two leaders may list the same tasks. A takeover counts those that it took itself.
func TestATakeoverCountsWhatItTook(t *testing.T) {
	t.Parallel()
	k := newFixture(schemas(t)(t), storetest.Single())
	pod := k.join(time.Hour)
	k.start(storetest.Single(), "a", 2)
	k.claim(pod, 2)
	takeover := func() *takeover {
		return &takeover{
			s: k.store, report: lifecycle.TaskReported{Kind: lifecycle.Released}, keeping: map[int64]bool{},
			within: func(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
				return k.store.handBack(ctx, pod, do)
			},
		}
	}
	first, second := takeover(), takeover()
	listed, _, err := first.list(k.ctx, []int64{pod}, 10)
	require.NoError(t, err)
	require.NoError(t, first.take(k.ctx, listed))
	require.NoError(t, second.take(k.ctx, listed))
	require.Equal(t, 2, first.out.Tasks)
	require.Zero(t, second.out.Tasks)
}

// TestRenewalReadsWhatIsHeld counts the tasks that the comparison of a renewal reads.
func TestRenewalReadsWhatIsHeld(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	k.start(storetest.Single(), "a", 100)
	k.renew(persistence.Renewal{Pod: pod, TTL: time.Hour})
	k.complete(pod, k.claim(pod, 60)...)
	rest := k.claim(pod, 40)
	k.complete(pod, rest[1:]...)
	renewal := persistence.Renewal{Pod: pod, TTL: time.Hour, Held: []persistence.Held{{Task: rest[0].Task, Epoch: rest[0].Epoch}}}
	require.Equal(t, 41, k.readByRenewal(renewal), "what is held, and the claim that it is of")
	k.renew(renewal)
	require.Equal(t, 1, value[int](k.database, `select count(*) from {schema}.claims`))
	k.complete(pod, rest[0])
	renewal.Held = nil
	require.Zero(t, k.readByRenewal(renewal))
	k.renew(renewal)
	require.Zero(t, value[int](k.database, `select count(*) from {schema}.claims`))
}

// TestRenewalOnAnotherConnection compares every task again: the server may be another one,
// which has lost what this store saw committed.
func TestRenewalOnAnotherConnection(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	k.start(storetest.Single(), "a", 2)
	renewal := persistence.Renewal{Pod: pod, TTL: time.Hour}
	k.renew(renewal)
	grants := k.claim(pod, 2)
	k.complete(pod, grants...)
	k.exec(`update {schema}.tasks set state = 3, epoch = epoch - 1, output = null, finished_at = null`)
	var ended bool
	require.NoError(t, k.store.lease.Use(k.ctx, func(on *pgx.Conn) error {
		return k.user.QueryRow(k.ctx, "select pg_terminate_backend($1, 5000)", int32(on.PgConn().PID())).Scan(&ended)
	}))
	require.True(t, ended)
	var renewed persistence.Renewed
	require.Eventually(t, func() bool {
		var err error
		renewed, err = k.store.RenewPod(k.ctx, renewal)
		return err == nil
	}, 30*time.Second, 10*time.Millisecond)
	require.Len(t, renewed.Unheld, 2)
	require.Equal(t, 1, value[int](k.database, `select count(*) from {schema}.claims`))
	require.Len(t, k.renew(renewal).Unheld, 2, "it stays like that")
}

// readByRenewal returns how many rows of tasks a renewal would read.
func (k *fixture) readByRenewal(renewal persistence.Renewal) int {
	k.t.Helper()
	var plan string
	require.ErrorIs(k.t, k.store.lease.Use(k.ctx, func(on *pgx.Conn) error {
		text, args := k.store.renewing(renewal, k.store.claims.Counted(renewal.Pod, on))
		return pgx.BeginFunc(k.ctx, on, func(tx pgx.Tx) error {
			require.NoError(k.t, tx.QueryRow(k.ctx, "explain (analyze, format json) "+text, args...).Scan(&plan))
			return pgerr.ErrTrial
		})
	}), pgerr.ErrTrial)
	type node struct {
		Table string  `json:"Relation Name"`
		Rows  float64 `json:"Actual Rows"`
		Loops float64 `json:"Actual Loops"`
		Plans []node
	}
	var root []struct{ Plan node }
	require.NoError(k.t, json.Unmarshal([]byte(plan), &root))
	read := 0.0
	var walk func(n node)
	walk = func(n node) {
		if n.Table == "tasks" {
			read += n.Rows * n.Loops
		}
		for _, child := range n.Plans {
			walk(child)
		}
	}
	walk(root[0].Plan)
	return int(read)
}
