package postgres

import (
	"bytes"
	"context"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// deaf is a connection that reads nothing from some moment on, as one of a process that
// froze, or that the network has cut off.
type deaf struct {
	net.Conn

	froze   *atomic.Bool
	givenUp chan struct{}
	once    sync.Once
}

func (c *deaf) Read(b []byte) (int, error) {
	if c.froze.Load() {
		<-c.givenUp
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Read(b)
}

// SetDeadline ends what reads, as the driver does when its caller gives up.
func (c *deaf) SetDeadline(at time.Time) error {
	if c.froze.Load() && !at.IsZero() {
		c.once.Do(func() { close(c.givenUp) })
	}
	return c.Conn.SetDeadline(at)
}

// Close leaves it open, so that the server does not notice.
func (c *deaf) Close() error { return nil }

// freezing returns a store whose process freezes.
func (d *database) freezing(t *testing.T) (*Store, *atomic.Bool) {
	t.Helper()
	froze := &atomic.Bool{}
	through := d.user.Config().ConnConfig.Copy()
	through.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = conn.Close() })
		return &deaf{Conn: conn, froze: froze, givenUp: make(chan struct{})}, nil
	}
	store, err := Open(t.Context(), Options{Pool: d.user, Direct: through, PoolSize: 2})
	require.NoError(t, err)
	return store, froze
}

// sending counts the sessions that send an answer of a claim which is not read.
const sending = `select count(*) from pg_stat_activity where wait_event = 'ClientWrite' and query like '%claim%' and datname = current_database()`

// unread stores runs, and has a pod claim all of them whose process freezes in the middle
// of the answer. It returns how many runs, and what ends the call.
func (k *fixture) unread(t *testing.T, pod int64) (runs int, giveUp func()) {
	t.Helper()
	list := k.draft(storetest.Single(), "a", 400)
	for i := range list {
		list[i].Input = bytes.Repeat([]byte("7"), persistence.InlinePayloadMax)
	}
	for some := range slices.Chunk(list, 20) {
		k.ask(some...)
	}
	frozen, froze := k.freezing(t)
	frozen.claimFirst.Missed(1)
	none := k.request(pod, 1)
	none.Handlers = nil
	_, err := frozen.ClaimTasks(k.ctx, none) // its connection has the statement then
	require.NoError(t, err)

	froze.Store(true)
	ctx, cancel := context.WithCancel(k.ctx)
	claimed := make(chan error, 1)
	go func() {
		_, err := frozen.ClaimTasks(ctx, k.request(pod, len(list)))
		claimed <- err
	}()
	require.Eventually(t, func() bool { return value[int](k.database, sending) == 1 }, 30*time.Second, 10*time.Millisecond)
	return len(list), func() {
		t.Helper()
		cancel()
		require.Error(t, <-claimed)
	}
}

// The server ends no statement for the time that it takes to send its answer: a pod that
// froze in the middle of a large one keeps nothing for longer than its lease, and one that
// lives, of which a connection is cut, for no longer than the call takes at most.
func TestAnUnreadAnswerKeepsNothing(t *testing.T) {
	t.Parallel()
	for what, lives := range map[string]bool{"of a pod that froze": false, "of a pod that lives": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			k, pod := withPod(t, storetest.Single())
			epoch := k.bump(1)
			runs, giveUp := k.unread(t, pod)
			require.Empty(t, k.expire(epoch, 1000).Pods)
			require.Equal(t, 1, value[int](k.database, sending), "it may yet be read")
			if lives {
				k.store.callDeadline = time.Millisecond
			} else {
				k.exec("update {schema}.pods set expires_at = clock_timestamp()")
			}
			require.Eventually(t, func() bool {
				out := k.expire(epoch, 1000)
				return len(out.Pods) == 1 || lives && value[int](k.database, sending) == 0
			}, 30*time.Second, 10*time.Millisecond)
			giveUp()
			if !lives {
				pod = k.join(time.Hour)
			}
			claimed := 0 // a session that ends holds its locks until it has rolled back
			require.Eventually(t, func() bool {
				claimed += len(k.claim(pod, runs))
				return claimed == runs
			}, time.Minute, 10*time.Millisecond)
		})
	}
}

// The same holds for a batch whose rest never comes: no timeout of the server applies in the
// middle of a batch.
func TestABatchWhoseRestNeverComesKeepsNothing(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	epoch := k.bump(1)
	conn, err := k.store.Pool().Acquire(k.ctx)
	require.NoError(t, err)
	defer conn.Release()
	batch := conn.Conn().PgConn().StartPipeline(k.ctx)
	batch.SendQueryParams("/* troupe check_pod */ select from "+k.schema+".pods for key share", nil, nil, nil, nil)
	batch.SendFlushRequest()
	require.NoError(t, batch.Flush())
	const stands = `select count(*) from pg_stat_activity where wait_event = 'ClientRead' and state = 'active' and backend_xid is not null
		and datname = current_database()`
	require.Eventually(t, func() bool { return value[int](k.database, stands) == 1 }, 30*time.Second, 10*time.Millisecond)
	require.Empty(t, k.expire(epoch, 1000).Pods)
	require.Equal(t, 1, value[int](k.database, stands), "the rest may yet come")
	k.exec("update {schema}.pods set expires_at = clock_timestamp()")
	require.Eventually(t, func() bool { return len(k.expire(epoch, 1000).Pods) == 1 }, 30*time.Second, 10*time.Millisecond)
	require.Error(t, batch.Close())
	_, err = k.store.RenewPod(k.ctx, persistence.Renewal{Pod: pod, TTL: time.Hour})
	require.ErrorIs(t, err, persistence.ErrPodDead)
}

// What is answered survives a crash of the server, whatever the database, or the step,
// says of commits.
func TestACompletionInAStepsTransactionIsDurable(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{"off": "on", "local": "local", "on": "on"} {
		for _, by := range []string{"the database", "the step"} {
			t.Run(set+" by "+by, func(t *testing.T) {
				t.Parallel()
				k := newFixture(openDatabase(t, Options{}), storetest.Single())
				if by == "the database" {
					k.exec("alter database " + pgx.Identifier{value[string](k.database, "select current_database()")}.Sanitize() + " set synchronous_commit = " + set)
					k.user.Reset()
				}
				k.exec(`create table {schema}.commits (how text);
					create function note() returns trigger language plpgsql as $$ begin
						insert into {schema}.commits select current_setting('synchronous_commit');
						return null;
					end $$;
					create trigger note after update on {schema}.tasks for each row when (new.state = 10) execute function note()`)
				pod := k.join(time.Minute)
				k.start(storetest.Single(), "a", 1)
				record := k.completion(pod, k.claim(pod, 1)...)
				transition := record.Transitions[0]
				record.Transitions = nil
				out, err := k.store.RecordInTx(k.ctx, record, func(ctx context.Context, tx any) (persistence.Transition, error) {
					var err error
					if by == "the step" {
						_, err = stepTx(tx).Exec(ctx, "set local synchronous_commit = "+set)
					}
					return transition, err
				})
				require.NoError(t, err)
				require.Equal(t, lifecycle.Moved, out.Answers[0].Result)
				require.Equal(t, want, value[string](k.database, "select how from {schema}.commits"))
			})
		}
	}
}
