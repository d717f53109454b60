package actors

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// Each tenant with ready tasks takes turns, whether it is late or not.
func TestWhoIsLateTakesTurnsWithOthers(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		late, others string         // tenants, a letter each
		more         map[string]int // what the late ones bring besides
		want         map[string]float64
	}{
		"one beside one":            {late: "a", others: "b", want: map[string]float64{"a": 1. / 2, "b": 1. / 2}},
		"one beside two":            {late: "a", others: "bc", want: map[string]float64{"a": 1. / 3, "c": 1. / 3}},
		"three beside two":          {late: "dea", others: "bc", want: map[string]float64{"a": 1. / 5, "d": 1. / 5, "c": 1. / 5}},
		"one beside ten":            {late: "a", others: "bcdefghijk", want: map[string]float64{"a": 1. / 11, "k": 1. / 11}},
		"one that brings new tasks": {late: "a", others: "bc", more: map[string]int{"a": 1}, want: map[string]float64{"a": 4. / 9, "c": 2.5 / 9}},
		"one beside a hundred":      {late: "a", others: hundred(), want: map[string]float64{"a": 1. / 101}},
		"nobody else":               {late: "a", want: map[string]float64{"a": 1}},
	} {
		for _, slots := range []int{1, 3, 16} {
			t.Run(fmt.Sprint(what, ", ", slots), func(t *testing.T) {
				t.Parallel()
				l := newFairLine()
				for _, tenant := range c.late {
					l.enqueue(string(tenant), 2000, false)
					l.hold(string(tenant), true)
				}
				l.pass(4000)
				for _, tenant := range c.late {
					l.hold(string(tenant), false)
				}
				l.view.forget()
				l.granted, l.claims = map[string]int{}, 0
				for range 2000 / slots {
					for _, tenant := range c.others {
						l.enqueue(string(tenant), max(2*slots-l.waiting(string(tenant)), 0), false)
					}
					for tenant, n := range c.more {
						l.enqueue(tenant, n*slots, false)
					}
					l.now = l.now.Add(20 * time.Millisecond)
					l.fill(slots)
				}
				all := 0
				for _, n := range l.granted {
					all += n
				}
				require.Greater(t, all, 1980)
				for tenant, want := range c.want {
					require.InDelta(t, want, float64(l.granted[tenant])/float64(all), min(0.03, want/2), tenant)
				}
				require.LessOrEqual(t, l.claims, 3*2000/slots, "rounds of claims")
			})
		}
	}
}

// hundred are the letters of so many tenants.
func hundred() string {
	var s []rune
	for i := range rune(100) {
		s = append(s, 'ā'+i)
	}
	return string(s)
}

// late is a line in which tenants are late by so many tasks each, and others had 3,000.
func lateLine(n int, tenants ...string) *fairLine {
	l := newFairLine()
	for _, tenant := range tenants {
		l.enqueue(tenant, n, false)
		l.hold(tenant, true)
	}
	l.pass(3000)
	for _, tenant := range tenants {
		l.hold(tenant, false)
	}
	l.view.forget()
	l.granted = map[string]int{}
	return l
}

// serve frees one slot after the other, a while apart, beside some others' steady work.
func (l *fairLine) serve(n int, others ...string) {
	l.granted = map[string]int{}
	for range n {
		for _, tenant := range others {
			l.enqueue(tenant, max(2-l.waiting(tenant), 0), false)
		}
		l.now = l.now.Add(20 * time.Millisecond)
		l.fill(1)
	}
}

// What nobody else wanted is not owed to them.
func TestWhoIsLateOwesNothingForWhatNobodyWanted(t *testing.T) {
	t.Parallel()
	l := lateLine(3000, "a")
	for range 10 {
		l.fill(100)
	}
	require.Equal(t, 1000, l.granted["a"])
	l.enqueue("b", 4000, false)
	l.serve(100)
	require.InDelta(t, 50, l.granted["a"], 3)
}

// The runs of who is late go on beside what is late of it.
func TestTheRunsOfWhoIsLateGoOn(t *testing.T) {
	t.Parallel()
	l := lateLine(3000, "a")
	l.serve(20, "b")
	l.enqueue("a", 10, true)
	before := l.waiting("a")
	l.serve(60, "b")
	for _, p := range l.rows {
		require.False(t, p.turn.goesOn)
	}
	require.Equal(t, before-l.granted["a"], l.waiting("a"))
	require.InDelta(t, 22, l.granted["b"], 8)
}

// Who becomes late while others still are delays nobody else, and is not delayed by these.
func TestWhoBecomesLateLater(t *testing.T) {
	t.Parallel()
	l := lateLine(2000, "a")
	l.enqueue("c", 250, false)
	l.hold("c", true)
	l.serve(1000, "b", "d")
	require.InDelta(t, 333, l.granted["a"], 10)
	l.hold("c", false)
	l.serve(400, "b", "d")
	for _, tenant := range []string{"a", "b", "c", "d"} {
		require.InDelta(t, 100, l.granted[tenant], 15, tenant)
	}
	l.serve(4000)
	require.Empty(t, l.rows)
	require.False(t, l.view.arrears.any())
}

// Who is late no more takes turns like anybody else.
func TestWhoIsLateNoMore(t *testing.T) {
	t.Parallel()
	l := newFairLine()
	l.enqueue("a", 1000, false)
	l.enqueue("b", 50, false)
	l.hold("a", true)
	l.hold("b", true)
	l.pass(3000)
	l.hold("a", false)
	l.hold("b", false)
	l.view.forget()
	l.serve(200, "x")
	require.Less(t, l.granted["a"], 120)
	require.Equal(t, 50, l.granted["b"])
	l.serve(300, "x", "b")
	for _, tenant := range []string{"a", "b", "x"} {
		require.InDelta(t, 100, l.granted[tenant], 12, tenant)
	}
}

// Others stand behind a crowd that somebody holds, while somebody else is late.
func TestOthersBehindACrowdBesideWhoIsLate(t *testing.T) {
	t.Parallel()
	l := lateLine(3000, "a")
	l.serve(20, "x")
	l.enqueue("h", 3000, false)
	l.hold("h", true)
	l.serve(3000, "x")
	require.Greater(t, l.granted["x"], 1300)
	l.hold("h", false)
	l.serve(300, "x")
	require.Greater(t, l.granted["h"], 50)
	require.Greater(t, l.granted["x"], 50)
}

// What somebody holds again keeps its place beside others who are late.
func TestWhoIsLateAndHeldAgain(t *testing.T) {
	t.Parallel()
	l := lateLine(3000, "a")
	l.enqueue("h", 300, false)
	l.hold("h", true)
	l.serve(1500, "x", "y")
	l.hold("h", false)
	l.serve(100, "x", "y")
	l.hold("h", true)
	l.serve(200, "x", "y")
	require.Zero(t, l.granted["h"])
	require.InDelta(t, 67, l.granted["a"], 10)
	l.hold("h", false)
	l.serve(200, "x", "y")
	require.Greater(t, l.granted["h"], 40)
}

// The first that was late keeps its place, too, while it is held again.
func TestTheFirstThatIsLateAndHeldAgain(t *testing.T) {
	t.Parallel()
	for _, long := range []int{5, 10, 30, 300} {
		l := lateLine(2000, "a")
		l.enqueue("c", 250, false)
		l.hold("c", true)
		l.serve(1000, "b", "d")
		l.hold("c", false)
		l.serve(20, "b", "d")
		l.hold("a", true)
		l.serve(long, "b", "d")
		l.hold("a", false)
		l.serve(100, "b", "d")
		l.serve(200, "b", "d")
		for _, tenant := range []string{"a", "b", "c", "d"} {
			require.InDelta(t, 50, l.granted[tenant], 20, "%s, after %d", tenant, long)
		}
	}
}

// A crowd that is held is no reason to claim again and again, however fast others go on.
func TestAHeldCrowdBesideWhoIsLateAndOthersThatGoOn(t *testing.T) {
	t.Parallel()
	l := lateLine(3000, "a")
	l.serve(20, "x")
	l.hold("a", true)
	l.enqueue("h", 3000, false)
	l.hold("h", true)
	l.elsewhere = 1
	for range 10 {
		l.claims = 0
		l.now = l.now.Add(time.Second)
		l.fill(4)
		require.Less(t, l.claims, 30)
	}
}

// However many crowds are held one after the other, others come past them.
func TestManyCrowdsBesideWhoIsLate(t *testing.T) {
	t.Parallel()
	l := lateLine(3000, "a")
	l.serve(20, "x")
	for i := range sectionsMax {
		crowd := string(rune('A' + i))
		l.enqueue(crowd, 1500, false)
		l.hold(crowd, true)
		l.granted = map[string]int{}
		for range 150 {
			l.enqueue("x", max(10-l.waiting("x"), 0), false)
			l.now = l.now.Add(50 * time.Millisecond)
			l.fill(16)
		}
		require.Greater(t, l.granted["x"], 1000, crowd)
	}
}

// What was enqueued behind an older frontier is not late; what is late cuts the line, into
// so many sections at most.
func TestQueueViewAndArrears(t *testing.T) {
	t.Parallel()
	q, now, frontier := &queueView{}, time.Unix(1000, 0), int64(10_000)
	claim := func(n int, block int64) *openClaim {
		now = now.Add(arrearsAge)
		after := q.after(now)
		q.woken = false
		open := &openClaim{request: persistence.ClaimRequest{Limit: q.arrears.share(n), After: after}, asked: now, full: after == 0}
		found := granted(open.request.Limit, block)
		found.Frontier = frontier
		q.learn(open, found, now)
		return open
	}
	claim(10, 10_000)
	claim(10, 10_000-arrearsBlocks)
	require.False(t, q.arrears.any())
	claim(10, 10_000-arrearsBlocks-1)
	require.True(t, q.arrears.any())
	open := claim(10, 10_001)
	require.Equal(t, placeOf(10_001), open.request.After, "others' turn, also if a look at everything is due")
	require.True(t, q.woken)
	for range 100 {
		frontier += 1000
		block := frontier - 1500 // others are late, too
		if at := q.arrears.now; at < len(q.arrears.sections)-1 {
			block = q.arrears.sections[at].from / placeOf(1)
		}
		claim(1, block)
		require.LessOrEqual(t, len(q.arrears.sections), sectionsMax)
	}
	require.Len(t, q.arrears.sections, sectionsMax)
}

// leaving is a store that parks nothing.
type leaving struct{ persistence.Store }

func (leaving) ParkTasks(context.Context, int64, int) (persistence.Parked, error) {
	return persistence.Parked{}, nil
}

// Beside somebody's arrears others get their turns, also where slots become free all at
// once and rarely.
func TestArrearsLeaveOthersTheirTurns(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 8} {
		t.Run(fmt.Sprintf("limit %d", limit), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, w *world) { w.leaveTurns(t, Config{Slots: 8, TenantLimit: limit}) })
		})
	}
}

func (w *world) leaveTurns(t *testing.T, config Config) {
	t.Helper()
	const long = 2 * time.Second
	w.faults.Store = leaving{w.store}
	w.register(storetest.Chain(2), newGauge().work(long))
	later := w.functions
	w.functions = map[int32]StepFunction{}
	w.register(storetest.Diamond(), newGauge().work(time.Millisecond))
	p := w.start(config)
	maps.Copy(later, w.functions)
	begin := func(name, tenant string, n int) (runs []workflow.RunID) {
		var orders []persistence.Trigger
		for range n {
			order := w.order(name)
			order.Tenant = tenant
			orders = append(orders, order)
		}
		for part := range slices.Chunk(orders, persistence.TriggerBatchMax/2) {
			answers, refused, err := p.Trigger(t.Context(), part)
			require.NoError(t, err)
			require.Nil(t, refused)
			for _, answer := range answers {
				runs = append(runs, answer.Run)
			}
		}
		return runs
	}
	begin("chain2", "late", 400)
	w.completed(begin("diamond", "default", 10*arrearsBlocks)...) // the frontier moves on
	w.functions = later
	p.Kill()
	p = w.start(config)
	pass(10 * time.Second)
	for range 6 {
		began := time.Now()
		w.completed(w.trigger(p, "diamond"))
		require.LessOrEqual(t, time.Since(began), 7*long, "each of its three levels waits until slots become free, once or twice")
	}
	require.Zero(t, p.Stats().Inline, "who has arrears takes no slots past the line")
}
