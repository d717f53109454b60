package actors

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// began starts a pod of some slots and lets the record of a first batch hang.
func (w *world) began(slots int, g *gauge) (p *Pod, runs []workflow.RunID, heal func()) {
	w.t.Helper()
	p = w.acquainted(Config{Slots: slots}, g, 10*time.Millisecond)
	heal = w.hang("record")
	runs = w.many(p, "single", 1)
	pass(time.Second)
	require.Equal(w.t, slots, p.Stats().Free, "its function has returned")
	require.Zero(w.t, p.Stats().Running)
	return p, runs, heal
}

// While a batch is recorded other tasks are executed, as many at once as there are slots,
// until four times as many wait to be recorded.
func TestTasksAreClaimedWhileABatchIsRecorded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		p, runs, heal := w.began(4, g)
		runs = append(runs, w.many(p, "single", 30)...)
		pass(time.Second)
		require.Equal(t, 4, g.most())
		require.Len(t, g.executions(), 1+4*awaitingRecordShare+4)
		require.Zero(t, p.Stats().Free)
		require.Equal(t, 4, p.Stats().Running)
		heal()
		w.completed(runs...)
		w.once(p, g, 4)
	})
}

// Tasks whose outputs do not fit into the next transaction keep their slots: else outputs
// would pile up while the database is slow.
func TestLargeOutputsKeepTheirSlots(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		g.output = make([]byte, 3<<20)
		w.register(storetest.Single(), g.work(10*time.Millisecond))
		p := w.start(Config{Slots: 4, PayloadLimit: 4 << 20})
		heal := w.hang("record")
		runs := w.many(p, "single", 1)
		pass(time.Second)
		runs = append(runs, w.many(p, "single", 12)...)
		pass(time.Second)
		require.Len(t, g.executions(), 1+2+4)
		require.Zero(t, p.Stats().Free)
		heal()
		w.completed(runs...)
	})
}

// The steps of a chain keep their slots for the steps after them.
func TestChildrenTakeSlotsWhileTasksAreClaimed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		w.register(storetest.Chain(3), g.work(10*time.Millisecond))
		p := w.acquainted(Config{Slots: 4}, g, 10*time.Millisecond)
		chains := w.many(p, "chain3", 4)
		for range 100 {
			chains = append(chains, w.trigger(p, "single"))
		}
		w.completed(chains...)
		require.EqualValues(t, 4*2, p.Stats().Inline, "no child went into the queue")
		w.once(p, g, 4)
	})
}

// Whichever actor fails while a batch is recorded, each task is executed once unless its
// run actor ended, and all slots come back.
func TestRestartsWhileABatchIsRecorded(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"journal", "runs", "claimer", "pulse"} {
		for _, answer := range []struct {
			name string
			err  error
		}{{"heard", nil}, {"unheard", persistence.ErrUnavailable}} {
			t.Run(victim+" "+answer.name, bubble(func(t *testing.T, w *world) {
				g := newGauge()
				p, runs, heal := w.began(4, g)
				var struck atomic.Bool
				w.faults.failAfter(func(call string) error {
					if call != "record" || struck.Swap(true) {
						return nil
					}
					kill(p, victim)
					pass(10 * time.Millisecond)
					return answer.err
				})
				runs = append(runs, w.many(p, "single", 12)...)
				heal()
				w.completed(runs...)
				require.True(t, struck.Load())
				if victim == "runs" { // what was executed and not recorded is lost with it
					pass(time.Second)
					require.Equal(t, 4, p.Stats().Free)
					require.LessOrEqual(t, g.most(), 4)
					return
				}
				w.once(p, g, 4)
			}))
		}
	}
}

// A message that was lost with the failure of runs costs no slot.
func TestSlotsAreReleasedAtTheLatestWithTheAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		p := w.acquainted(Config{Slots: 2}, g, 10*time.Millisecond)
		heal := w.hang("record")
		w.sent.mu.Lock()
		w.sent.lose = ".FreeSlots"
		w.sent.mu.Unlock()
		run := w.trigger(p, "single")
		pass(time.Second)
		require.Equal(t, 1, p.Stats().Free)
		heal()
		w.completed(run)
		w.once(p, g, 2)
	})
}

// A stop waits for what is being recorded, although no slot is in use.
func TestStopWaitsForABatch(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		p, runs, heal := w.began(4, g)
		runs = append(runs, w.many(p, "single", 2)...)
		stopped := make(chan error)
		go func() { stopped <- p.Stop(t.Context()) }()
		pass(5 * time.Second)
		require.Empty(t, stopped)
		heal()
		require.NoError(t, <-stopped)
		w.completed(runs...)
		g.once(t)
	})
}

// Under a limit per tenant a task counts until it is recorded, and so does its slot.
func TestLimitedTenantsKeepTheirSlots(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g := newGauge()
		p := w.acquainted(Config{Slots: 4, TenantLimit: 2}, g, 10*time.Millisecond)
		heal := w.hang("record")
		runs := w.many(p, "single", 8)
		pass(time.Second)
		require.Len(t, g.executions(), 1+2)
		require.Equal(t, 2, p.Stats().Free)
		heal()
		began := time.Now()
		w.completed(runs...)
		require.Less(t, time.Since(began), 2*time.Second)
	})
}

// A suspect is alone until it is recorded, and a function that still runs uses its own.
func TestSlotsThatAreNotReleasedEarly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.single(newGauge().work(time.Second), Config{Slots: 3})
		pass(time.Second)
		l := newLedger([]pool{{slots: 3}}, 1)
		a, is := spawnRuns(p.rt, &Ports{}, &runsState{ledger: l})().(*runs)
		require.True(t, is)
		began := &messages.FreeSlots{}
		for step, suspect := range []bool{true, false, false} {
			task := &messages.Task{Run: make([]byte, 16), Step: int32(step), Epoch: 2}
			h := l.hold(&messages.StartTask{Task: task, Suspect: suspect}, sharedPool)
			h.abandoned = step == 1
			began.Tasks = append(began.Tasks, task)
		}
		for range 2 {
			a.onFreeSlots(began)
			require.Equal(t, 1, l.free())
			require.Equal(t, 2, l.running())
			require.Equal(t, 1, l.suspects)
		}
	})
}

func TestSlotsThatNoChildNeeds(t *testing.T) {
	t.Parallel()
	const succeeded, errored, lost, handedBack = messages.OutcomeKind_OUTCOME_KIND_SUCCEEDED, messages.OutcomeKind_OUTCOME_KIND_ERRORED,
		messages.OutcomeKind_OUTCOME_KIND_LOST, messages.OutcomeKind_OUTCOME_KIND_RELEASED
	type report struct {
		run      byte
		kind     messages.OutcomeKind
		pool     string
		children []int32
	}
	for name, c := range map[string]struct {
		batch    []report
		stopping bool
		limit    int
		released []int32
		kept     int // for children
	}{
		"leaves":                 {batch: []report{{1, succeeded, "a", nil}, {2, succeeded, "a", nil}}, released: []int32{0, 1}},
		"a chain":                {batch: []report{{1, succeeded, "a", []int32{9}}, {2, succeeded, "a", []int32{9}}}, kept: 2},
		"two parents of a child": {batch: []report{{1, succeeded, "a", []int32{9}}, {1, succeeded, "a", []int32{9}}}, released: []int32{0}, kept: 1},
		"a fan beside leaves": {
			batch:    []report{{1, succeeded, "a", nil}, {2, succeeded, "a", nil}, {3, succeeded, "a", []int32{7, 8}}, {4, succeeded, "a", nil}},
			released: []int32{0, 1}, kept: 2,
		},
		"more children than slots":        {batch: []report{{1, succeeded, "a", nil}, {2, succeeded, "a", []int32{7, 8, 9}}}, kept: 2},
		"a failure leaves no child":       {batch: []report{{1, succeeded, "a", []int32{9}}, {2, errored, "a", nil}}, released: []int32{1}, kept: 1},
		"tasks that are given up":         {batch: []report{{1, lost, "a", nil}, {2, handedBack, "a", nil}}},
		"another pool":                    {batch: []report{{1, succeeded, "a", []int32{8}}, {2, succeeded, "a", []int32{8}}, {3, succeeded, "b", []int32{9}}}, released: []int32{2}, kept: 2},
		"no children while the pod stops": {batch: []report{{1, succeeded, "a", []int32{8}}}, stopping: true, released: []int32{0}},
		"a limit per tenant":              {batch: []report{{1, succeeded, "a", nil}}, limit: 1, kept: 1},
	} {
		config := Config{QueueSlots: map[string]int{"a": 4, "b": 4}, TenantLimit: c.limit}
		system := newSystem(slog.New(slog.DiscardHandler))
		heard := make(chan *messages.FreeSlots, 1)
		runs := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
			if m, is := ctx.Message().(*messages.FreeSlots); is {
				heard <- m
			}
		}))
		a := &journal{base: base{rt: &runtime{config: config, system: system, addresses: addresses{runs: runs}}}, queued: map[taskKey]bool{}}
		open := &openRecord{part: len(c.batch)}
		for i, r := range c.batch {
			open.reports = append(open.reports, &messages.ReportOutcome{
				Task: &messages.Task{Run: append(make([]byte, 15), r.run), Step: int32(i), Epoch: 2}, Kind: r.kind, Pool: r.pool, Children: r.children,
			})
		}
		if !c.stopping {
			open.pool, open.freed, _ = a.room(open.reports)
		}
		var released []int32
		open.freed = a.leave(open.reports, open.pool, open.freed)
		if len(c.released) > 0 {
			for _, task := range (<-heard).GetTasks() {
				released = append(released, task.GetStep())
			}
		}
		require.Equal(t, open.freed, a.leave(open.reports, open.pool, open.freed), name)
		require.Empty(t, heard, name)
		require.Equal(t, c.released, released, name)
		require.Equal(t, c.kept, open.freed, name)
		answers := make([]persistence.RecordAnswer, len(c.batch))
		for i := range answers {
			answers[i].Result = lifecycle.Moved
		}
		open.reservation = &messages.SlotsReserved{Slots: 9}
		require.Equal(t, c.kept, a.inParentSlots(open, 9, answers), name)
	}
}
