package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/steptx"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// step executes one step in its transaction.
func (k *fixture) step(pod int64, fn func(ctx context.Context, tx pgx.Tx) error) (persistence.Recorded, error) {
	k.t.Helper()
	k.start(storetest.Single(), "tenant", 1)
	grants := k.claim(pod, 1)
	require.Len(k.t, grants, 1)
	record := k.completion(pod, grants...)
	transition := record.Transitions[0]
	record.Transitions, record.TxLimit = nil, time.Minute
	return k.store.RecordInTx(k.ctx, record, func(ctx context.Context, tx any) (persistence.Transition, error) {
		return transition, fn(ctx, stepTx(tx))
	})
}

// A table that is altered under a step that has prepared its statements on each
// connection of the pool.
func TestAStatementOfAStepWhoseTableWasAltered(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	_, err := k.user.Exec(k.ctx, "create table mine (id int)")
	require.NoError(t, err)
	read := func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, "select * from mine")
		if err != nil {
			return err
		}
		rows.Close()
		return rows.Err()
	}
	for round := range 3 {
		for range 4 {
			recorded, err := k.step(pod, read)
			require.NoError(t, err)
			require.Equal(t, lifecycle.Moved, recorded.Answers[0].Result)
		}
		_, err := k.user.Exec(k.ctx, fmt.Sprintf("alter table mine add column c%d int", round))
		require.NoError(t, err)
	}
}

// The state of the server, by the code of a value that is too large.
func TestAServerWithoutTransactionIdsIsNotTheStepsFault(t *testing.T) {
	t.Parallel()
	for routine, away := range map[string]bool{"GetNewTransactionId": true, "GetNewMultiXactId": true, "index_form_tuple": false} {
		refused := &pgconn.PgError{Code: "54000", Message: "database is not accepting commands", Routine: routine}
		require.Equal(t, away, errors.Is(pgerr.Translate(refused), persistence.ErrUnavailable), routine)
		require.Equal(t, !away, errors.Is(pgerr.Translate(refused), persistence.ErrBadRow), routine)
		require.Equal(t, away, steptx.Exhausted(refused), routine)
		require.Equal(t, away, errors.Is(steptx.StepRefused(refused), persistence.ErrUnavailable), routine)
	}
}

// silent is a connection on which nothing arrives any more.
type silent struct {
	net.Conn

	off *atomic.Bool
}

// Write implements net.Conn.
func (c silent) Write(b []byte) (int, error) {
	if c.off.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// connections are closed from below, and so is what is made afterwards.
type connections struct {
	mu     sync.Mutex
	list   []net.Conn
	closed bool
}

func (c *connections) add(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list = append(c.list, conn); c.closed {
		_ = conn.Close()
	}
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, conn := range c.list {
		_ = conn.Close()
	}
}

// newSilencedFixture is a fixture whose user's pool, unlike the store's own, falls silent
// when off is set.
func newSilencedFixture(t *testing.T, maxConns int32) (k *fixture, off *atomic.Bool) {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.Database(t))
	require.NoError(t, err)
	direct := config.ConnConfig.Copy()
	config.MaxConns = maxConns
	off = &atomic.Bool{}
	made := &connections{}
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			made.add(conn)
		}
		return silent{conn, off}, err
	}
	user, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(user.Close)
	k = newFixture(openSchema(t, user, Options{Direct: direct}), storetest.Single())
	t.Cleanup(made.close) // the pool would wait for answers on what fell silent
	return k, off
}

// A connection that is dead on its way, while something there acknowledges what is
// sent, is not the fault of the step that waits on it. A statement that takes too
// long is.
func TestAStepThatTheServerNeverHeard(t *testing.T) {
	t.Parallel()
	k, off := newSilencedFixture(t, 2)
	pod := k.join(time.Hour)
	k.start(storetest.Single(), "tenant", 1)
	record := k.completion(pod, k.claim(pod, 1)...)
	attempt := func(statement string, dead bool) error {
		ctx, cancel := context.WithTimeout(k.ctx, 2*time.Second)
		defer cancel()
		_, err := k.store.RecordInTx(ctx, record, func(ctx context.Context, tx any) (persistence.Transition, error) {
			own, ok := tx.(pgx.Tx)
			require.True(t, ok)
			off.Store(dead)
			_, err := own.Exec(ctx, statement)
			return record.Transitions[0], err
		})
		off.Store(false)
		return err
	}
	err := attempt("select 1", true)
	require.ErrorIs(t, err, persistence.ErrTxBroken)
	err = attempt("select pg_sleep(10)", false)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, persistence.ErrTxBroken)
	require.NoError(t, attempt("select 1", false))
}

// A pool that gives no connection is not the step's fault, whether its server is silent or
// all of its connections are in use.
func TestAPoolThatGivesAStepNothing(t *testing.T) {
	t.Parallel()
	k, off := newSilencedFixture(t, 1)
	k.store.Patience.Most = 200 * time.Millisecond
	pod := k.join(time.Hour)
	called := false
	call := func(context.Context, pgx.Tx) error {
		called = true
		return nil
	}
	conn, err := k.user.Acquire(k.ctx)
	require.NoError(t, err)
	_, err = k.step(pod, call)
	require.ErrorIs(t, err, steptx.ErrPoolEmpty)
	conn.Release()
	off.Store(true)
	_, err = k.step(pod, call)
	require.ErrorIs(t, err, steptx.ErrPoolSilent)
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	require.False(t, called)
}

// A pool that was empty once may only be slow: one step at a time waits for the full time,
// and others give up early.
func TestASlowPoolIsWaitedFor(t *testing.T) {
	t.Parallel()
	k, _ := newSilencedFixture(t, 1)
	pod := k.join(time.Hour)
	call := func(context.Context, pgx.Tx) error { return nil }
	conn, err := k.user.Acquire(k.ctx)
	require.NoError(t, err)
	k.store.Patience.Most = time.Millisecond
	_, err = k.step(pod, call)
	require.ErrorIs(t, err, steptx.ErrPoolEmpty)
	k.store.Patience.Most = time.Hour
	first := make(chan error, 1)
	go func() {
		_, err := k.step(pod, call)
		first <- err
	}()
	require.Eventually(t, k.store.Patience.Asking.Load, time.Minute, time.Millisecond)
	_, err = k.step(pod, call)
	require.ErrorIs(t, err, steptx.ErrPoolEmpty)
	conn.Release()
	require.NoError(t, <-first)
	require.False(t, k.store.Patience.Asking.Load())
	_, err = k.step(pod, call)
	require.NoError(t, err)
	require.False(t, k.store.Patience.Nothing.Load())
}

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h.
const tcpUserTimeout = 18

// A server that vanished without a word under a step is noticed, though the
// connection is none of the engine's.
func TestTheConnectionOfAStepIsWatched(t *testing.T) {
	t.Parallel()
	k := newFixture(openDatabase(t, Options{}), storetest.Single())
	var lent *pgx.Conn
	_, err := k.step(k.join(time.Hour), func(_ context.Context, tx pgx.Tx) error {
		lent = tx.Conn()
		require.Equal(t, 40*time.Second, userTimeout(t, lent), "of a minute")
		return nil
	})
	require.NoError(t, err)
	require.Zero(t, userTimeout(t, lent), "it is the embedder's again")
	require.Equal(t, 4*time.Second, steptx.Vanished(6*time.Second))
	require.Equal(t, steptx.VanishedMin, steptx.Vanished(time.Second))
	require.Zero(t, steptx.Vanished(0), "a step without a limit waits for as long as the kernel does")
}

// userTimeout reads for how long the other side of a connection may take nothing.
func userTimeout(t *testing.T, conn *pgx.Conn) time.Duration {
	t.Helper()
	tcp, is := conn.PgConn().Conn().(syscall.Conn)
	require.True(t, is)
	raw, err := tcp.SyscallConn()
	require.NoError(t, err)
	limit := 0
	var refused error
	require.NoError(t, raw.Control(func(fd uintptr) {
		limit, refused = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
	}))
	require.NoError(t, refused)
	return time.Duration(limit) * time.Millisecond
}

// What a pool meets while it connects for a step is not the step's doing.
func TestAPoolThatCannotConnectForAStep(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(pgtest.Database(t))
	require.NoError(t, err)
	var refuses atomic.Pointer[error]
	config.AfterConnect = func(context.Context, *pgx.Conn) error {
		if cause := refuses.Load(); cause != nil {
			return *cause
		}
		return nil
	}
	user, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(user.Close)
	k := newFixture(openSchema(t, user, Options{}), storetest.Single())
	pod := k.join(time.Hour)
	for _, cause := range []error{
		errors.New("vault: no password now"), &pgconn.PgError{Code: "28P01"}, &pgconn.PgError{Code: "53300"},
		&pgconn.PgError{Code: "42704", Message: "role does not exist"}, &pgconn.PgError{Code: "57014"},
	} {
		refuses.Store(nil)
		k.start(storetest.Single(), "tenant", 1)
		grants := k.claim(pod, 1)
		user.Reset()
		refuses.Store(&cause)
		record := k.completion(pod, grants...)
		record.Transitions = nil
		_, err := k.store.RecordInTx(k.ctx, record, func(context.Context, any) (persistence.Transition, error) {
			require.Fail(t, "it is called")
			return persistence.Transition{}, nil
		})
		require.ErrorIs(t, err, persistence.ErrUnavailable, "%v", cause)
	}
}

// A hook that panics before a step is called is not the step's doing, either.
func TestAPoolWhoseHookPanics(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(pgtest.Database(t))
	require.NoError(t, err)
	var lent *pgx.Conn
	config.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) {
		lent = conn
		panic("the vault is sealed")
	}
	broken, err := pgxpool.NewWithConfig(t.Context(), config) // it counts that connection as taken for ever, and Close would wait
	require.NoError(t, err)
	k, pod := withPod(t, storetest.Single())
	own := k.store.EmbedderPool
	k.store.EmbedderPool = broken
	defer func() { k.store.EmbedderPool = own }()
	_, err = k.step(pod, func(context.Context, pgx.Tx) error { panic("it is called") })
	require.ErrorIs(t, err, persistence.ErrTxNotBegun)
	require.ErrorContains(t, err, "the vault is sealed")
	require.NoError(t, lent.Close(context.WithoutCancel(t.Context())))
}

// A join that takes longer than the lease it asks for is no sign of another
// database.
func TestAShortLeaseAndASlowPool(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(pgtest.Database(t))
	require.NoError(t, err)
	direct := config.ConnConfig.Copy()
	config.MaxConns = 1
	user, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(user.Close)
	k := newFixture(openSchema(t, user, Options{Direct: direct}), storetest.Single())
	_, _, err = k.store.JoinPod(k.ctx, persistence.PodInfo{Name: "pod", TTL: time.Microsecond})
	require.NoError(t, err)
	conn, err := user.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	_, _, err = k.store.JoinPod(k.ctx, persistence.PodInfo{Name: "pod", TTL: time.Minute})
	require.NoError(t, err, "one that gives no answer says nothing")
}

// The lease would be renewed where the pod's row is not.
func TestADirectConnectionToAnotherDatabase(t *testing.T) {
	t.Parallel()
	other := openDatabase(t, Options{})
	k := newFixture(openDatabase(t, Options{Direct: other.user.Config().ConnConfig}), storetest.Single())
	_, _, err := k.store.JoinPod(k.ctx, persistence.PodInfo{Name: "pod", TTL: time.Minute})
	require.ErrorContains(t, err, "Config.DirectURL")
	for _, d := range []*database{other, k.database} {
		require.Zero(t, value[int](d, "select count(*) from troupe.pods"))
	}
}
