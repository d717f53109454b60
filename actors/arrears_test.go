package actors

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// Who was passed over for long is late: claims take turns between it and the others.
func TestQueueViewAndArrears(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	q, frontier := &queueView{}, int64(10_000)
	require.Equal(t, 10, q.arrears.share(10))
	claim := func(ms, n int, block int64) *openClaim {
		after := q.after(at(ms))
		q.woken = false
		request := persistence.ClaimRequest{Limit: q.arrears.share(10), After: after, But: q.arrears.but()}
		open := &openClaim{request: request, asked: at(ms), full: after == 0}
		found := granted(n, block)
		found.Frontier = frontier
		q.learn(open, found, at(ms))
		return open
	}
	high := lifecycle.FairID(0, 0, 10_000-arrearsBlocks)
	claim(0, 10, 10_000)
	require.Zero(t, claim(300, 10, 100).request.After)
	for i := range 4 {
		require.True(t, q.woken)
		others := claim(305+1000*(i%2), 0, 0)
		require.Equal(t, high, others.request.After, "also if a look at everything is due")
		require.Equal(t, []int32{7}, others.request.But)
		require.Equal(t, 10, others.request.Limit)
		require.True(t, q.woken, "nothing of others is ready")
		late := claim(310+1000*(i%2), 10, int64(101+i))
		require.Less(t, late.request.After, high)
		require.Empty(t, late.request.But)
		require.Equal(t, 10, late.request.Limit, "all are free for who is late")
		frontier += 50 // the mark stays
	}
	claim(1410, 10, 10_001)
	require.Empty(t, q.arrears.but())
	require.Equal(t, 5, q.arrears.share(10), "nobody knows that no other is ready")
	claim(1420, 3, 110)
	require.False(t, q.woken)
	require.Zero(t, q.arrears.mark, "that was all")
	claim(1430, 10, frontier+10-arrearsBlocks)
	require.Zero(t, q.arrears.mark, "what was enqueued late is no arrears")
}

// Each tenant with ready tasks gets as many as any other, whether it is late or not, and
// what others do not need goes to those who are late.
func TestLateTenantsTakeTurnsWithOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		late, others int
		every        int // others have a task in so many of those that become free
		want         float64
	}{
		{late: 1, others: 1, want: 1. / 2},
		{late: 1, others: 2, want: 1. / 3},
		{late: 3, others: 2, want: 3. / 5},
		{late: 1, others: 20, want: 1. / 21},
		{late: 20, others: 1, want: 20. / 21},
		{late: 1, others: 2, every: 10, want: 9. / 10},
		{late: 1, others: 0, want: 1},
	} {
		for _, slots := range []int{1, 3, 16} {
			t.Run(fmt.Sprint(c, slots), func(t *testing.T) {
				t.Parallel()
				l := &lateLine{late: c.late, others: c.others, every: c.every}
				for range 3000 {
					l.fill(slots)
				}
				require.InDelta(t, c.want, float64(l.granted[true])/float64(l.granted[true]+l.granted[false]), 0.02)
				require.LessOrEqual(t, l.claims, 3*3000, "rounds of claims")
			})
		}
	}
}

// lateLine is a queue of which some tenants are late, and its view.
type lateLine struct {
	view         queueView
	late, others int
	every, seen  int
	claims       int
	next         [2]int
	granted      map[bool]int
}

// fill claims until no slot is free.
func (l *lateLine) fill(free int) {
	ready := 1 << 30
	if l.granted == nil {
		l.granted = map[bool]int{}
	}
	if l.every > 0 {
		ready = 0
		for range free {
			if l.seen++; l.seen%l.every == 0 {
				ready++
			}
		}
	}
	for free > 0 {
		l.claims++
		request := persistence.ClaimRequest{Limit: l.view.arrears.share(free), But: l.view.arrears.but()}
		found := &persistence.Claimed{Frontier: 10_000}
		for range request.Limit {
			switch others := len(request.But) > 0; {
			case !others:
				l.next[0]++
				found.Grants = append(found.Grants, persistence.Grant{Tenant: "late"})
			case l.others > 0 && ready > 0:
				ready--
				l.next[1]++
				found.Grants = append(found.Grants, persistence.Grant{Tenant: fmt.Sprint("other", l.next[1]%l.others)})
			}
		}
		if len(request.But) == 0 {
			found.Lowest = lifecycle.FairID(int32(l.next[0]%l.late), 0, 100)
		}
		found.Scanned = len(found.Grants)
		l.granted[len(request.But) == 0] += len(found.Grants)
		l.view.learn(&openClaim{request: request}, found, time.Unix(1000, 0))
		free -= len(found.Grants)
	}
}

// A tenant that is late no more is one of the others, while others still are.
func TestWhoIsLateNoMoreIsAsOthersAre(t *testing.T) {
	t.Parallel()
	var a arrears
	serve := func(group int32) {
		a.served(&persistence.Claimed{Frontier: 10_000, Lowest: lifecycle.FairID(group, 0, 100), Grants: make([]persistence.Grant, 1)}, false)
	}
	serve(1)
	for range lateRounds*3 + 1 {
		require.Contains(t, a.but(), int32(1))
		serve(2)
	}
	require.Equal(t, []int32{2}, a.but())
	for group := range int32(2 * lateMax) {
		serve(3 + group)
	}
	require.LessOrEqual(t, len(a.late), lateMax)
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
