package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/cluster/postgres"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// campaign wins an election or fails the test.
func campaign(t *testing.T, a *postgres.Adapter) cluster.Term {
	t.Helper()
	term, err := a.Campaign(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = term.Resign(context.WithoutCancel(t.Context())) })
	return term
}

// succeed campaigns until it wins and says how long that took.
func succeed(t *testing.T, a *postgres.Adapter) (cluster.Term, time.Duration) {
	t.Helper()
	start := time.Now()
	var term cluster.Term
	eventually(t, "a new leader", func() bool {
		var err error
		term, err = a.Campaign(t.Context())
		if !errors.Is(err, cluster.ErrNotElected) {
			require.NoError(t, err)
		}
		return err == nil
	})
	t.Cleanup(func() { _ = term.Resign(context.WithoutCancel(t.Context())) })
	return term, time.Since(start)
}

// fencedWrite is a leader's write under an epoch; it returns whether it landed.
func fencedWrite(t *testing.T, w world, epoch int64) bool {
	t.Helper()
	return w.exec(t, `with fence as (select from {schema}.leader_epoch where epoch = $1 for share)
		insert into {schema}.intake (run_id) select gen_random_uuid() where exists (select from fence)`, epoch) == 1
}

func TestOneLeader(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	first := campaign(t, w.adapter(t, 1))
	require.Equal(t, int64(1), first.Epoch())
	_, err := w.adapter(t, 2).Campaign(t.Context())
	require.ErrorIs(t, err, cluster.ErrNotElected)
	require.Equal(t, 1, w.count(t, "select count(*) from troupe.leader_epoch where epoch = 1 and holder = 1"))
	require.Zero(t, w.count(t, "select count(*) from pg_stat_activity where datname = current_database() and application_name like 'troupe leader troupe %' and backend_xmin is not null"))
	require.True(t, fencedWrite(t, w, 1))
}

func TestPingsAreHeard(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	h := listen(t, w.adapter(t, 2))
	leader := campaign(t, w.adapter(t, 1))
	for i := range int64(3) {
		ping := cluster.Ping{Mode: cluster.ModeRelay, Pods: 3, Relayed: i << 40}
		require.NoError(t, leader.Ping(t.Context(), ping))
		ping.Epoch = leader.Epoch()
		require.Equal(t, cluster.Notice{Ping: &ping, From: 1}, h.next(t))
	}
}

func TestAResignationIsHeardOnceTheLockIsFree(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	follower := w.adapter(t, 2)
	h := listen(t, follower)
	quickest := patience
	for range 5 { // other tests share the machine
		leader := campaign(t, w.adapter(t, 1))
		start := time.Now()
		require.NoError(t, leader.Resign(t.Context()))
		last := h.next(t)
		require.True(t, last.Ping.Resigned)
		require.Equal(t, leader.Epoch(), last.Ping.Epoch)
		next, err := follower.Campaign(t.Context()) // no second try is needed
		require.NoError(t, err)
		quickest = min(quickest, time.Since(start))
		require.Equal(t, leader.Epoch()+1, next.Epoch())
		require.NoError(t, next.Resign(t.Context()))
		require.NoError(t, next.Resign(t.Context()), "again")
		require.True(t, h.next(t).Ping.Resigned)
		require.Error(t, leader.Ping(t.Context(), cluster.Ping{}))
	}
	pgtest.Within(t, 200*time.Millisecond, quickest, "the quickest change of leaders")
}

func TestAKilledLeader(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	leader := campaign(t, w.adapter(t, 1))
	w.terminate(t, "leader")
	next, took := succeed(t, w.adapter(t, 2))
	pgtest.Within(t, time.Second, took, "the next election")
	require.Equal(t, leader.Epoch()+1, next.Epoch())
	require.Error(t, leader.Ping(t.Context(), cluster.Ping{}))
	require.Error(t, leader.Ping(t.Context(), cluster.Ping{}), "the term stays over")
	require.NoError(t, leader.Resign(t.Context()), "safe after a failed ping")
	require.False(t, fencedWrite(t, w, leader.Epoch()), "the old leader's write")
	require.True(t, fencedWrite(t, w, next.Epoch()))
}

// A leader whose row was removed by hand is followed by one that fences it.
func TestARemovedEpochIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	first := campaign(t, w.adapter(t, 1))
	for range 2 {
		w.exec(t, "truncate {schema}.leader_epoch")
		require.False(t, fencedWrite(t, w, first.Epoch()))
		require.NoError(t, first.Resign(t.Context()))
		next := campaign(t, w.adapter(t, 2))
		require.Greater(t, next.Epoch(), first.Epoch())
		require.False(t, fencedWrite(t, w, first.Epoch()))
		require.True(t, fencedWrite(t, w, next.Epoch()))
		first = next
	}
	require.NoError(t, first.Ping(t.Context(), cluster.Ping{Mode: cluster.ModeNone}), "it fits into a notice")
}

func TestAFrozenLeaderLosesTheLock(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	short := func(c *postgres.Config) { c.SessionTimeout = 500 * time.Millisecond }
	leader := campaign(t, w.adapter(t, 1, short))
	require.NoError(t, leader.Ping(t.Context(), cluster.Ping{Mode: cluster.ModeNone}))
	// From here it does nothing at all; its socket stays open.
	next, took := succeed(t, w.adapter(t, 2, short))
	pgtest.Within(t, 2*time.Second, took, "the next election")
	require.False(t, fencedWrite(t, w, leader.Epoch()), "it wakes up between a check and a write")
	require.Error(t, leader.Ping(t.Context(), cluster.Ping{}))
	require.NoError(t, next.Ping(t.Context(), cluster.Ping{}))
}

func TestTheDefaultsFreeTheLockInTime(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	campaign(t, w.adapter(t, 1))
	_, took := succeed(t, w.adapter(t, 2))
	pgtest.Within(t, 3500*time.Millisecond, took, "the next election")
}

func TestPingsKeepTheTerm(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	leader := campaign(t, w.adapter(t, 1, func(c *postgres.Config) { c.SessionTimeout = pgtest.Scale(2*time.Second, 400*time.Millisecond) }))
	other := w.adapter(t, 2)
	beat := time.NewTicker(pgtest.Scale(250*time.Millisecond, 100*time.Millisecond)) // ten are longer than the session may be idle
	defer beat.Stop()
	for range 10 {
		<-beat.C
		require.NoError(t, leader.Ping(t.Context(), cluster.Ping{}))
		_, err := other.Campaign(t.Context())
		require.ErrorIs(t, err, cluster.ErrNotElected)
	}
}

func TestALeaderWhoseNetworkIsGone(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	path := newPath(t, w.url)
	leader := campaign(t, w.adapter(t, 1, func(c *postgres.Config) {
		c.DirectURL, c.SessionTimeout, c.PingTimeout = path.url, 500*time.Millisecond, 300*time.Millisecond
	}))
	require.NoError(t, leader.Ping(t.Context(), cluster.Ping{}))
	path.drop() // nothing passes, and neither side hears of it
	_, took := succeed(t, w.adapter(t, 2))
	pgtest.Within(t, 2*time.Second, took, "the next election")
	start := time.Now()
	err := leader.Ping(t.Context(), cluster.Ping{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	pgtest.Within(t, 3*time.Second, time.Since(start), "a ping into a network that is gone")
	require.False(t, fencedWrite(t, w, leader.Epoch()))
}

// The first of two addresses is gone, as it is after a failover: it accepts, or the
// kernel does, and says nothing.
func TestACampaignWhoseFirstAddressIsGone(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	path := newPath(t, w.url)
	path.drop()
	to, err := url.Parse(w.url)
	require.NoError(t, err)
	gone, err := url.Parse(path.url)
	require.NoError(t, err)
	to.Host = gone.Host + "," + to.Host
	leader := campaign(t, w.adapter(t, 1, func(c *postgres.Config) {
		c.DirectURL, c.ConnectTimeout = to.String(), 500*time.Millisecond
	}))
	require.NoError(t, leader.Ping(t.Context(), cluster.Ping{}))
}

func TestALeaderWhoseSessionIsCut(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	path := newPath(t, w.url)
	leader := campaign(t, w.adapter(t, 1, func(c *postgres.Config) { c.DirectURL = path.url }))
	path.cut()
	require.Error(t, leader.Ping(t.Context(), cluster.Ping{}))
	_, took := succeed(t, w.adapter(t, 2))
	pgtest.Within(t, time.Second, took, "the next election")
}

func TestANewLeaderWaitsForTheWritesOfTheOld(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	old := campaign(t, w.adapter(t, 1))
	write, err := w.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = write.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = write.Exec(t.Context(), "select from troupe.leader_epoch where epoch = $1 for share", old.Epoch())
	require.NoError(t, err)
	w.terminate(t, "leader")
	eventually(t, "the lock is free", func() bool {
		return w.count(t, "select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())") == 0
	})
	won := make(chan cluster.Term, 1)
	go func() {
		term, err := w.adapter(t, 2).Campaign(t.Context())
		if err == nil {
			won <- term
		}
		close(won)
	}()
	eventually(t, "the bump waits", func() bool {
		return w.count(t, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") == 1
	})
	require.NoError(t, write.Commit(t.Context()))
	term := <-won
	require.NotNil(t, term)
	require.NoError(t, term.Resign(t.Context()))
}
