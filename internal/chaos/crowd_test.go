package chaos

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	startsSQL = `select count(*)::int from troupe.every_event e join troupe.every_run r on r.id = e.run_id
		where e.kind = 'started' and r.tenant = $1`
	// waitSQL is the 95th percentile of what a tenant's tasks waited for a slot.
	waitSQL = `select coalesce(percentile_cont(0.95) within group (order by extract(epoch from s.at - q.at)) * 1000, 0)::int
		from troupe.every_event s
		join troupe.every_event q on q.run_id = s.run_id and q.step = s.step and q.n = s.n - 1 and q.kind = 'queued'
		join troupe.every_run r on r.id = s.run_id
		where s.kind = 'started' and r.tenant = $1`
)

// F41: a tenant that enqueues a lot does not delay other tenants, and gets the
// capacity that they leave.
func TestNoisyNeighbour(t *testing.T) {
	t.Parallel()
	slots := 8
	r := begin(t, row{
		ID: "F41", Name: "noisy-neighbour", Fault: fmt.Sprintf("tenant A has %d tasks ready, B then brings 1, C 10 a second", spell(3000, 30_000)),
		FullOnly: true, Must: "I9 I14", Allowed: []figure{
			atMost("dispatches before B's", float64(2*2*slots), ""), within("B waited", time.Second), within("C's p95", time.Second),
			atLeast("A's rate beside C", 80, "% of before"), atLeast("rounds", 4, ""),
		},
	})
	tune := brisk()
	tune.Slots = slots
	y := newYard(r, tune, 0)
	pods := y.start("pod-1", "pod-2")
	y.flood(pods[0], "tick/a", spell(3000, 30_000))
	y.eventually("A is served", func() bool { return y.number(startsSQL, "a") >= 100 })
	b := y.trigger(pods[1], "tick/b", 1)[0]
	y.eventually("B is served", func() bool { return y.number(startsSQL, "b") == 1 })
	left := func() int {
		return y.number(`select count(*)::int from troupe.every_run where tenant = 'a' and state < 'completed'`)
	}
	var rates [2][]float64 // alone, and beside C
	// In turn, each first every other time, and by medians: a machine is not equally
	// fast all the time. A round needs more of A's tasks than it executes.
	for i := 0; i < 4*spell(1, 5) && left() > 4000; i++ {
		c := (i + i/2) % 2
		rates[c] = append(rates[c], y.startRate("a", 500*time.Millisecond, func() {
			if c == 1 {
				y.trigger(pods[1], "tick/c", 1)
			}
		}))
	}
	require.True(t, len(rates[0]) > 0 && len(rates[1]) > 0, "A's tasks were over before anything was measured")
	slices.Sort(rates[0])
	slices.Sort(rates[1])
	alone, beside := rates[0][len(rates[0])/2], rates[1][len(rates[1])/2]
	y.settle()
	const passed = `select count(*)::int from troupe.every_event e,
		(select max(at) filter (where kind = 'queued') as ready, max(at) filter (where kind = 'started') as began from troupe.every_event where run_id = $1 and step >= 0) b
		where e.kind = 'started' and e.at > b.ready and e.at < b.began`
	r.count("dispatches before B's", y.number(passed, b))
	r.took("B waited", time.Duration(y.number(waitSQL, "b"))*time.Millisecond)
	r.took("C's p95", time.Duration(y.number(waitSQL, "c"))*time.Millisecond)
	r.measure("A's rate beside C", math.Round(100*beside/alone))
	r.count("rounds", len(rates[0])+len(rates[1]))
	r.note("A's starts a second: %.0f alone, %.0f beside C", alone, beside)
}

// startRate is how many tasks of a tenant start per second, while something
// else happens ten times a second.
func (y *yard) startRate(tenant string, over time.Duration, beside func()) float64 {
	y.t.Helper()
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	before := y.number(startsSQL, tenant)
	began := time.Now()
	for ; time.Since(began) < over; <-ticks.C {
		beside()
	}
	return float64(y.number(startsSQL, tenant)-before) / time.Since(began).Seconds()
}

// F42: steps that all fail at once are retried without waves, do not delay other
// runs, and succeed when they can.
func TestRetryStorm(t *testing.T) {
	t.Parallel()
	n, storm := spell(300, 1000), spell(6*time.Second, 20*time.Second)
	r := begin(t, row{
		ID: "F42", Name: "retry-storm", Fault: fmt.Sprintf("%d steps of one tenant fail for %v, waits of 250 ms to 2 s, jitter 0.5", n, storm),
		FullOnly: true, Must: "I1 I14; the breaker of the row is not part of this engine",
		Allowed: []figure{
			atMost("peak of retries a second, in means", 1.5, ""), within("others' p95", time.Second), none("failed for good"),
		},
	})
	tune := brisk()
	tune.Slots = 50
	y := newYard(r, tune, 0)
	pods := y.start("pod-1", "pod-2", "pod-3")
	y.arm("downstream")
	y.flood(pods[0], "downstream/storm", n)
	const calmAfter = 3 * time.Second // waits are at their cap
	y.under(min(storm/2, calmAfter))
	from := y.databaseNow()
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for began := time.Now(); time.Since(began) < storm-calmAfter/2; <-ticks.C {
		y.trigger(pods[1], "tick/calm", 1)
	}
	to := y.databaseNow()
	y.disarm("downstream")
	y.settle()
	const peak = `select (1000 * max(n) / avg(n))::int from (select count(*) as n from troupe.every_event e
		where kind = 'started' and attempt > 1 and at >= $1 and at < $1 + make_interval(secs => floor(extract(epoch from $2::timestamptz - $1)))
		group by floor(extract(epoch from at - $1))) s`
	r.measure("peak of retries a second, in means", float64(y.number(peak, from, to))/1000)
	r.took("others' p95", time.Duration(y.number(waitSQL, "calm"))*time.Millisecond)
	r.count("failed for good", y.number(`select count(*)::int from troupe.every_run where state = 'failed'`))
	r.note("%d retries", y.number(`select count(*)::int from troupe.every_event where kind = 'retrying'`))
}

// flood has a pod trigger many runs at once.
func (y *yard) flood(p *pod, shape string, n int) {
	y.t.Helper()
	p.tell(fmt.Sprintf("flood %s %d", shape, n))
	if said := y.hear(p, "flooded"); said != fmt.Sprintf("flooded %d", n) {
		y.t.Fatalf("%d runs of %s: %s", n, shape, said)
	}
}
