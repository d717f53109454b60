package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	wokenTwiceSQL = `select count(*)::int from (select from troupe.every_event where kind = 'woken' group by run_id, step having count(*) > 1) s`
	wokenSQL      = `select count(*)::int from troupe.every_event where kind = 'woken'`
)

// F11: all pods lead at the same time, under one epoch, which the fence lets
// pass, or each under its own, which deposes the others.
func TestEverybodyLeads(t *testing.T) {
	t.Parallel()
	for _, way := range []struct{ name, elect, fault string }{
		{"leaders-share-a-term", electShared, "3 pods lead without the lock, all under the epoch that is valid"},
		{"leaders-depose-each-other", electBumped, "3 pods lead without the lock, each under an epoch of its own, again and again"},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			r := begin(t, row{
				ID: "F11", Name: way.name, Fault: way.fault, Must: "I4 I7 I8", FullOnly: way.elect == electBumped,
				Allowed: []figure{atLeast("leaders", 3, ""), atLeast("timers fired", 20, ""), none("timers fired twice")},
			})
			y := newYard(r, brisk(), 6)
			y.each = func(s *podSpec) { s.Fail.Elect = way.elect }
			y.arm("lawless")
			y.start("pod-1", "pod-2", "pod-3")
			y.eventually("timers have fired", func() bool { return y.number(wokenSQL) >= spell(40, 100) })
			leaders := map[string]bool{}
			terms := 0
			for _, e := range readLedgers(r, y.dir) {
				if e.what == "leads" {
					leaders[e.ledger] = true
					terms++
				}
			}
			y.settle()
			r.count("leaders", len(leaders))
			r.count("timers fired", y.number(wokenSQL))
			r.count("timers fired twice", y.number(wokenTwiceSQL))
			r.note("%d terms", terms)
		})
	}
}

// F23: two leaders look for dead pods at the same instant, and see the same
// one: the second takes nothing.
func TestTwoRescuers(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F23", Name: "stale-rescue", Fault: "2 pods, both leading, find the same dead pod and are let go at the same instant",
		FullOnly: true, Must: "I3 I4",
		Allowed: []figure{exactly("rescuers that came too late", 1), none("tasks taken twice"), none("re-executed beyond what it held")},
	})
	y := newYard(r, brisk(), 0)
	y.each = func(s *podSpec) {
		s.Fail.Elect, s.Fail.Expire = electShared, true
		if s.Name == "pod-3" {
			s.Fail = failSpec{Elect: electNever}
		}
	}
	pods := y.start("pod-1", "pod-2", "pod-3")
	ids := y.trigger(pods[0], "hold", 48)
	y.eventually("every slot holds a task", func() bool { return count(readLedgers(r, y.dir), "begun") == 48 })
	held := len(y.holders(ids)["pod-3"])
	require.Positive(t, held)
	y.arm("expire")
	y.arm("lawless")
	y.eventually("both look for dead pods", func() bool { return count(readLedgers(r, y.dir), "waits") == 2 })
	pods[2].kill()
	y.eventually("its lease has ended", func() bool {
		return y.number(`select count(*)::int from troupe.pods where name = 'pod-3' and expires_at < clock_timestamp()`) == 1
	})
	y.disarm("expire")
	y.eventually("both have looked", func() bool { return count(readLedgers(r, y.dir), "rescued") == 2 })
	y.letGo("pod-1")
	y.letGo("pod-2")
	empty, rescues := 0, []string{}
	for _, e := range readLedgers(r, y.dir) {
		if e.what == "rescued" {
			rescues = append(rescues, e.detail)
			if strings.HasSuffix(e.detail, ", 0 tasks") {
				empty++
			}
		}
	}
	v := y.judge()
	r.count("rescuers that came too late", empty)
	r.count("tasks taken twice", v.losses-held)
	r.count("re-executed beyond what it held", v.executions-48-held)
	r.note("taken: %s", strings.Join(rescues, " and "))
}

// F36: pods that hear no wake find what is ready all the same: the leader's
// ping tells that a wake was missed, and if not even that the sweep finds it.
func TestWakesAreDropped(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name, wakes, fault string
		sweep, limit       time.Duration
	}{
		{"notices-dropped", dropNotices, "no notification of ready work arrives; pings do, sweeps are 10 min away", 10 * time.Minute, 2 * time.Second},
		{"wakes-dropped", dropAll, "neither notifications nor the stream of changes bring wakes", 1500 * time.Millisecond, 2 * time.Second},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			r := begin(t, row{
				ID: "F36", Name: way.name, Fault: way.fault, Must: "I1", FullOnly: way.wakes == dropAll,
				Allowed: []figure{within("picked up after at most", way.limit), exactly("picked up by others", 20)},
			})
			tune := brisk()
			tune.Sweep, tune.Slots = way.sweep, 4
			y := newYard(r, tune, 0)
			y.each = func(s *podSpec) { s.Fail.Wakes = way.wakes }
			pods := y.start("pod-1")
			y.eventually("the first pod leads", func() bool { return y.leader() == "pod-1" })
			y.trigger(pods[0], "hold", 4)
			y.eventually("it is full", func() bool { return count(readLedgers(r, y.dir), "begun") == 4 })
			others := y.start("pod-2", "pod-3")
			y.eventually("the leader relays", func() bool { return y.stats(others[1]).Mode == "relay" })
			for n := range 20 {
				y.trigger(pods[0], "tick", 1)
				y.eventually(fmt.Sprintf("tick %d is done", n), func() bool { return y.number(endedSQL) == n+1 })
			}
			const gap = `select (max(extract(epoch from s.at - q.at)) * 1000)::int from troupe.every_event s
				join troupe.every_event q on q.run_id = s.run_id and q.step = s.step and q.kind = 'queued' where s.kind = 'started' and s.at > $1`
			r.took("picked up after at most", time.Duration(y.number(gap, time.Time{}))*time.Millisecond)
			r.count("picked up by others", y.number(`select count(*)::int from troupe.every_event e join troupe.pods p on p.id = e.pod
				where e.kind = 'started' and p.name <> 'pod-1'`))
			y.letGo("pod-1")
			y.judge()
		})
	}
}

// Two pods hear no notification at all, and their sweeps are ten minutes away: each
// starts what the other, which is full, was told to run, because its own replication
// stream brings it.
func TestTwoPodsStartWorkByTheStreamAlone(t *testing.T) {
	t.Parallel()
	const slots, ticks = 4, 20
	r := begin(t, row{
		ID: "F36", Name: "stream-alone", Fault: "no notification arrives, nor does a ping; 2 pods read a stream each, sweeps are 10 min away", Must: "I1",
		Allowed: []figure{exactly("started by pod-1", slots+ticks), exactly("started by pod-2", slots+ticks)},
	})
	tune := brisk()
	tune.Sweep, tune.Slots = 10*time.Minute, slots
	y := newYard(r, tune, 0)
	y.each = func(s *podSpec) { s.Fail.Wakes = dropHearing }
	pods := y.start("pod-1")
	fill := func(p *pod) {
		before := count(readLedgers(r, y.dir), "begun")
		y.trigger(p, "hold", slots)
		y.eventually(p.name+" is full", func() bool { return count(readLedgers(r, y.dir), "begun") == before+slots })
	}
	fill(pods[0])
	pods = append(pods, y.start("pod-2")...)
	for half, full := range pods {
		other := pods[1-half]
		if half == 1 {
			fill(full)
			before := y.number(endedSQL)
			y.letGo(other.name)
			y.eventually(other.name+" is idle", func() bool { return y.number(endedSQL) == before+slots && y.stats(other).Free == slots })
		}
		y.eventually("both read the stream", func() bool { return y.stats(full).Mode == "stream" && y.stats(other).Mode == "stream" })
		done := y.number(endedSQL)
		for n := range ticks {
			y.trigger(full, "tick", 1)
			y.eventually(fmt.Sprintf("tick %d is done by %s", n, other.name), func() bool { return y.number(endedSQL) == done+n+1 })
		}
	}
	for _, p := range pods {
		r.count("started by "+p.name, y.number(`select count(*)::int from troupe.every_event e join troupe.pods p on p.id = e.pod
			where e.kind = 'started' and p.name = '`+p.name+`'`))
	}
	y.letGo("pod-2")
	y.judge()
}
