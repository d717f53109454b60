package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// parking fires timers of a kit whose runs somebody removes.
type parking struct {
	*kit
	epoch int64
}

// fire fires until nothing is left that can, as a leader does who takes no rest.
func (p parking) fire(limit int) (count int) {
	p.t.Helper()
	for {
		p.store.front.rest = time.Time{}
		out, err := p.store.FireTimers(p.ctx, p.epoch, limit)
		require.NoError(p.t, err)
		if count += out.Count; !out.More && p.store.front.back.IsZero() {
			return count
		}
	}
}

// look has the leader look at all that are parked, as after a minute.
func (p parking) look() {
	p.t.Helper()
	p.again()
	for more := true; more; more = (p.store.parked.behind != parkedTimer{}) {
		p.store.parked.last = time.Time{}
		p.fire(4)
	}
}

// again begins another look at all of them.
func (p parking) again() {
	p.store.parked.turn(p.epoch)
	p.store.parked.round, p.store.parked.last, p.store.parked.behind = time.Time{}, time.Time{}, parkedTimer{}
}

// age has them parked for longer by so much, under a leader who saw it.
func (p parking) age(by time.Duration) {
	p.t.Helper()
	p.exec("update {schema}.parked_timers set since = since - make_interval(secs => $1)", by.Seconds())
	p.store.parked.begun = p.store.parked.begun.Add(-by)
}

// timers counts those that count, and those that are parked.
func (p parking) timers() []int {
	p.t.Helper()
	return []int{
		value[int](p.database, "select count(*)::int from {schema}.durable_timers"),
		value[int](p.database, "select count(*)::int from {schema}.parked_timers"),
	}
}

// strays inserts timers of runs that nobody has ever seen, so late.
func (p parking) strays(runs, each int, late time.Duration) {
	p.t.Helper()
	p.exec(`insert into {schema}.durable_timers (run_id, step, kind, wake_at, epoch)
		select run, step, 1, now() - make_interval(secs => $3), 1
		from (select gen_random_uuid() as run from generate_series(1, $1::int)) r, generate_series(1, $2::int) step`, runs, each, late.Seconds())
}

// Timers of runs that somebody removed stand in nobody's way, wait for their runs to be
// put back, and go after an hour.
func TestTimersOfRemovedRunsGo(t *testing.T) {
	t.Parallel()
	k, g, pod, epoch := newNaps(t)
	p := parking{k, epoch}
	runs := k.start(g, "a", 17)
	k.complete(pod, k.claim(pod, 17)...)
	gone := append(slices.Clone(runs[:8]), runs[9:]...)
	k.exec("create table {schema}.removed as select * from {schema}.workflow_runs where id = any($1)", uuids(gone))
	k.exec("delete from {schema}.workflow_runs where id = any($1)", uuids(gone))
	k.exec("update {schema}.durable_timers set wake_at = wake_at - interval '59 minutes' where run_id = any($1)", uuids(runs[:8]))
	require.Eventually(t, func() bool { return p.fire(4) == 1 }, 30*time.Second, time.Millisecond, "there are as many before it as after it")
	require.Equal(t, []int{0, 16}, p.timers())
	p.age(59 * time.Minute)
	p.look()
	require.Equal(t, []int{0, 16}, p.timers())
	k.exec("insert into {schema}.workflow_runs select * from {schema}.removed where id = $1", [16]byte(runs[0]))
	p.look()
	require.Equal(t, []int{0, 15}, p.timers(), "what is there again has its timer, which fires")
	k.exec("insert into {schema}.durable_timers (run_id, step, kind, wake_at, epoch) values ($1, 7, 1, now(), 1)", [16]byte(runs[1]))
	p.fire(4)
	require.Equal(t, []int{0, 16}, p.timers())
	p.age(time.Minute)
	p.look()
	require.Equal(t, []int{0, 1}, p.timers(), "that of a moment ago")
	p.age(time.Hour)
	p.look()
	require.Equal(t, []int{0, 0}, p.timers())
	k.finish(pod)
	for _, run := range []workflow.RunID{runs[0], runs[8]} {
		require.Equal(t, lifecycle.Completed, k.state(run))
	}
}

// They stand in nobody's way while somebody holds runs whose timers are due, either: as
// when runs are being removed, in more than one transaction.
func TestTimersOfRemovedRunsBesideHeldOnes(t *testing.T) {
	t.Parallel()
	k, g, pod, epoch := newNaps(t)
	runs := k.start(g, "a", 30)
	k.complete(pod, k.claim(pod, 30)...)
	for i, run := range runs {
		k.exec("update {schema}.durable_timers set wake_at = now() - make_interval(secs => $2) where run_id = $1", [16]byte(run), float64(3600-i))
	}
	held, gone, alive := slices.Concat(runs[:1], runs[29:]), slices.Concat(runs[1:14], runs[15:29]), runs[14]
	k.exec("delete from {schema}.workflow_runs where id = any($1)", uuids(gone))
	k.hold("delete from {schema}.workflow_runs where id = any($1)", uuids(held))
	p := parking{k, epoch}
	require.Equal(t, 1, p.fire(4))
	require.Equal(t, []int{2, 27}, p.timers())
	k.finish(pod)
	require.Equal(t, lifecycle.Completed, k.state(alive))
}

// Nor when somebody holds the timers themselves.
func TestHeldTimersOfRemovedRuns(t *testing.T) {
	t.Parallel()
	k, g, pod, epoch := newNaps(t)
	p := parking{k, epoch}
	p.strays(3, 1, time.Hour)
	release := k.hold("delete from {schema}.durable_timers")
	runs := k.start(g, "a", 1)
	k.complete(pod, k.claim(pod, 1)...)
	require.Eventually(t, func() bool { return p.fire(10) == 1 }, 30*time.Second, time.Millisecond)
	k.finish(pod)
	require.Equal(t, lifecycle.Completed, k.state(runs[0]))
	require.Equal(t, []int{3, 0}, p.timers())
	release()
	p.fire(10)
	require.Equal(t, []int{0, 3}, p.timers())
}

// However many they are, each call does a bounded part: of parking them, and of looking
// at them. What others wait for fires with the first, wherever it stands among them.
func TestManyTimersOfRemovedRuns(t *testing.T) {
	t.Parallel()
	k, g, pod, epoch := newNaps(t)
	p := parking{k, epoch}
	const runs, each = 30, 2*parkPart/30 + 1
	run := k.start(g, "a", 1)[0]
	k.complete(pod, k.claim(pod, 1)...)
	k.exec("update {schema}.durable_timers set wake_at = now() - interval '30 minutes'")
	p.strays(runs, each, time.Hour)
	p.strays(runs, each, time.Minute)
	out, err := k.store.FireTimers(k.ctx, epoch, 10)
	require.NoError(t, err)
	require.Equal(t, 1, out.Count)
	require.True(t, out.More)
	require.Equal(t, parkPart, p.timers()[1])
	p.fire(10)
	require.Equal(t, []int{0, 2 * runs * each}, p.timers())
	k.finish(pod)
	require.Equal(t, lifecycle.Completed, k.state(run))

	p.age(2 * time.Hour)
	p.again()
	out, err = k.store.FireTimers(k.ctx, epoch, 10)
	require.NoError(t, err)
	require.Equal(t, 2*runs*each-parkedPart, p.timers()[1])
	require.LessOrEqual(t, out.Next, out.Now.Add(parkedRest), "the others are looked at soon")
	k.store.parked.last = clock.System{}.Now().Add(time.Minute) // not a moment ago, whatever the test takes
	_, err = k.store.FireTimers(k.ctx, epoch, 10)
	require.NoError(t, err)
	require.Equal(t, 2*runs*each-parkedPart, p.timers()[1], "but not at once")
	p.look()
	require.Equal(t, []int{0, 0}, p.timers())
}

// Another leader does not know whether a run was put back and removed again before its
// term: the hour begins with that.
func TestAnotherTermMissesRunsAnew(t *testing.T) {
	t.Parallel()
	k, _, pod, epoch := newNaps(t)
	p := parking{k, epoch}
	p.strays(1, 1, time.Hour)
	p.fire(4)
	p.exec("update {schema}.parked_timers set since = since - interval '2 hours'")
	p.look()
	require.Equal(t, []int{0, 1}, p.timers())
	var err error
	p.epoch, err = k.store.BumpEpoch(k.ctx, pod)
	require.NoError(t, err)
	_, err = k.store.FireTimers(k.ctx, epoch, 4)
	require.ErrorIs(t, err, persistence.ErrDeposed)
	p.look()
	require.Equal(t, []int{0, 1}, p.timers())
	p.age(parkedKept)
	p.look()
	require.Equal(t, []int{0, 0}, p.timers())
}

// A run that was held, and a timer that was set late, are found behind the front.
func TestTimersBehindTheFrontFire(t *testing.T) {
	t.Parallel()
	k, g, pod, epoch := newNaps(t)
	p := parking{k, epoch}
	p.strays(100, 200, time.Hour)
	runs := k.start(g, "a", 2)
	k.complete(pod, k.claim(pod, 2)...)
	k.exec("update {schema}.durable_timers set wake_at = now() - interval '30 minutes' where run_id = $1", [16]byte(runs[0]))
	k.exec("update {schema}.durable_timers set wake_at = now() + interval '1 hour' where run_id = $1", [16]byte(runs[1]))
	release := k.hold("select from {schema}.workflow_runs where id = $1 for update", [16]byte(runs[0]))
	fire := func() int {
		out, err := k.store.FireTimers(k.ctx, epoch, 100)
		require.NoError(t, err)
		return out.Count
	}
	require.Zero(t, fire())
	f := &k.store.front
	f.rest, f.behindNext = time.Now().Add(time.Hour), time.Now().Add(time.Hour)
	require.Zero(t, fire())
	require.Less(t, time.Since(f.front), time.Minute)
	release()
	k.exec("update {schema}.durable_timers set wake_at = now() - interval '40 minutes' where run_id = $1", [16]byte(runs[1]))
	k.exec("insert into {schema}.durable_timers (run_id, step, kind, wake_at, epoch) values (gen_random_uuid(), 1, 1, now(), 1)") // the front is looked at
	require.Zero(t, fire())
	f.behindNext = time.Time{}
	require.Equal(t, 2, fire())
	require.True(t, f.behindNext.After(time.Now()))
	k.finish(pod)
	for _, run := range runs {
		require.Equal(t, lifecycle.Completed, k.state(run))
	}
}

// A walk goes on where it ended, also if more is due at one instant than it walks past.
func TestAWalkGoesOn(t *testing.T) {
	t.Parallel()
	at := time.Now()
	later := at.Add(time.Second)
	require.Equal(t, later, walked{full: true, last: later}.end(at, 0))
	require.Equal(t, at.Add(time.Microsecond), walked{full: true, last: at}.end(at, 0))
	require.Equal(t, at, walked{full: true, over: true, last: later, due: []dueTimer{{wakeAt: at}}}.end(time.Time{}, 0))
	require.Equal(t, at, walked{over: true, last: later, due: []dueTimer{{wakeAt: at}}}.end(at, 1), "others of that instant can fire")
	require.Equal(t, at.Add(time.Microsecond), walked{over: true, last: later, due: []dueTimer{{wakeAt: at}}}.end(at, 0), "they are held")
}

// Whoever holds the table in which timers are parked stops nobody else's.
func TestALockOnParkedTimersStopsNoOthers(t *testing.T) {
	t.Parallel()
	k, g, pod, epoch := newNaps(t)
	p := parking{k, epoch}
	p.strays(3, 1, time.Hour)
	release := k.hold("lock table {schema}.parked_timers in access exclusive mode")
	run := k.start(g, "a", 1)[0]
	k.complete(pod, k.claim(pod, 1)...)
	require.Eventually(t, func() bool { return p.fire(10) == 1 }, 30*time.Second, time.Millisecond)
	k.finish(pod)
	require.Equal(t, lifecycle.Completed, k.state(run))
	require.Equal(t, 3, value[int](k.database, "select count(*)::int from {schema}.durable_timers"))
	release()
	p.fire(10)
	require.Equal(t, []int{0, 3}, p.timers())
}

// What is parked is looked at whoever parked it: a backup was loaded, perhaps.
func TestTimersThatWereParkedByOthers(t *testing.T) {
	t.Parallel()
	k, g, pod, epoch := newNaps(t)
	p := parking{k, epoch}
	p.look()
	run := k.start(g, "a", 1)[0]
	k.complete(pod, k.claim(pod, 1)...)
	k.exec(`with gone as (delete from {schema}.durable_timers returning *)
		insert into {schema}.parked_timers select *, now() - interval '2 days' from gone`)
	p.age(parkedKept)
	p.look()
	require.Eventually(t, func() bool { p.fire(10); return k.state(run) != lifecycle.Running || p.timers()[0] == 0 }, 30*time.Second, time.Millisecond)
	k.finish(pod)
	require.Equal(t, lifecycle.Completed, k.state(run))
}

// While a crowd of timers cannot fire, all that is due is looked at for a part of the
// time, and what became due lately at every call; without one, always.
func TestACrowdOfTimersTakesAPartOfTheTime(t *testing.T) {
	t.Parallel()
	var f timerFront
	now := time.Now()
	require.Equal(t, timerLook{whole: true}, f.look(1))
	f.parted(part{took: time.Hour})
	require.True(t, f.look(1).whole, "a server that stood still is no crowd")
	f.parted(part{crowd: true, moved: true, end: now, took: time.Second})
	require.Equal(t, timerLook{back: now}, f.look(1))
	require.InDelta(t, 3*time.Second, f.pause(), float64(time.Second))
	f.parted(part{crowd: true, took: time.Millisecond})
	require.InDelta(t, wholeStuck, f.pause(), float64(100*time.Millisecond))
	f.parted(part{took: time.Hour})
	require.InDelta(t, wholeRest, f.pause(), float64(time.Second), "the rest of the crowd")
	f.parted(part{took: time.Millisecond})
	require.True(t, f.look(1).whole)
	require.True(t, f.crowd, "that was its end, and who knows what is before")
	f.failed(time.Second)
	require.False(t, f.look(1).whole)
	f.parted(part{first: true, took: time.Millisecond})
	require.True(t, f.look(1).whole)
	require.False(t, f.crowd)
	f.failed(time.Second)
	require.True(t, f.look(1).whole)
	f.advance(now, now, false)
	require.Equal(t, now.Add(-frontFresh), f.look(1).front)
	f.advance(now.Add(-time.Minute), now, true)
	require.Equal(t, now.Add(-frontFresh), f.look(1).front)
	f.advance(now, now, true)
	require.Equal(t, now, f.look(1).front)
	f.advance(now, now.Add(-time.Hour), true)
	require.Equal(t, now.Add(-time.Hour-frontFresh), f.look(1).front, "a clock that was set back")
	require.Equal(t, timerLook{whole: true}, f.look(2), "another term")
}
