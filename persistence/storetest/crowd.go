package storetest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// crowd is the number of pods of the cases with many of them.
const crowd = 6

// patience bounds how long a pod of a crowd tries before the case fails: others
// may hold what it wants for a while.
const patience = time.Minute

var crowdRules = []rule{
	{"crowd/claims", "many pods that claim at once get each task once, and none is left", func(w *world) {
		const tasks = 300
		w.trigger(w.drafts(w.with(Single()), tenantA, tasks)...)
		pods := w.pods(crowd)
		got := make([][]persistence.Grant, crowd)
		var count atomic.Int64
		w.together(crowd, func(ctx context.Context, i int) error {
			for round := 0; count.Load() < tasks; round++ {
				grants, err := pods[i].take(ctx, round, 7)
				if err != nil {
					return err
				}
				if ctx.Err() != nil {
					return fmt.Errorf("%d of %d tasks granted: %w", count.Load(), tasks, ctx.Err())
				}
				got[i] = append(got[i], grants...)
				count.Add(int64(len(grants)))
			}
			return nil
		})
		seen := map[workflow.TaskID]bool{}
		for _, grant := range slices.Concat(got...) {
			require.False(w.t, seen[grant.Task], "granted twice: %v", grant.Task)
			seen[grant.Task] = true
		}
		require.Len(w.t, seen, tasks)
	}},
	{"crowd/diamonds", "many pods that claim and record at once lose no fan-in and no run", func(w *world) {
		const runs = 120
		g := w.with(Diamond())
		w.trigger(w.drafts(g, tenantA, runs/2)...)
		w.trigger(w.drafts(g, tenantB, runs/2)...)
		pods := w.pods(crowd)
		var ended atomic.Int64
		w.together(crowd, func(ctx context.Context, i int) error {
			for round := 0; ended.Load() < runs; round++ {
				grants, err := pods[i].take(ctx, round, 9)
				if err != nil {
					return err
				}
				list := make([]persistence.Transition, len(grants))
				for j, grant := range grants {
					list[j] = completion(grant)
				}
				n, err := pods[i].tell(ctx, round, list)
				if err != nil {
					return err
				}
				if ctx.Err() != nil {
					return fmt.Errorf("%d of %d runs ended: %w", ended.Load(), runs, ctx.Err())
				}
				ended.Add(int64(n))
			}
			return nil
		})
		for _, r := range w.snapshot().Runs {
			require.Equal(w.t, lifecycle.Completed, r.Core.State)
		}
	}},
	{"crowd/cancels_and_losses", "cancels, losses, expiries and timers at once leave every run terminal and every promise kept", func(w *world) {
		graphs := []*workflow.Graph{Diamond(), Branch(), Mixed(workflow.FailFast), Mixed(workflow.FinishSiblings), Handled()}
		w.with(graphs...)
		var list []persistence.Trigger
		for i := range 100 {
			list = append(list, w.drafts(graphs[i%len(graphs)], []string{tenantA, tenantB}[i%2], 1)...)
		}
		w.trigger(list...)
		pods := w.pods(crowd)
		w.together(crowd+2, func(ctx context.Context, i int) error {
			switch i {
			case crowd:
				return w.cancelSome(ctx, list)
			case crowd + 1:
				return w.keepHouse(ctx)
			}
			return pods[i].live(ctx, 25)
		})
		w.checkInvariants()
		for range 20 {
			w.advance(2 * time.Hour)
			w.expire()
			w.fire()
			p := w.pod()
			w.park() // back what was parked while no pod lived
			p.finish()
		}
		for _, r := range w.snapshot().Runs {
			require.True(w.t, r.Core.State.Terminal(), "run %v is %v", r.ID, r.Core.State)
		}
	}},
	{"crowd/keys", "many callers with one key get one run", func(w *world) {
		list := w.drafts(w.with(Single()), tenantA, crowd)
		runs := make([]workflow.RunID, crowd)
		for i := range list {
			list[i].Key = "key"
		}
		w.together(crowd, func(ctx context.Context, i int) error {
			for {
				var out persistence.Triggers
				err := again(ctx, func() (err error) {
					out, err = w.store.TriggerRuns(ctx, list[i:i+1], persistence.GrantRequest{})
					return err
				})
				if err != nil {
					return err
				}
				if answer := out.Answers[0]; answer.Result != persistence.KeyBusy {
					runs[i] = answer.Run
					return nil
				}
			}
		})
		for _, id := range runs {
			require.Equal(w.t, runs[0], id)
		}
		require.Len(w.t, w.snapshot().Runs, 1)
	}},
}

// together calls f for each of n workers at once and fails the case on any
// error.
func (w *world) together(n int, f func(ctx context.Context, i int) error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = f(ctx, i) })
	}
	group.Wait()
	require.NoError(w.t, errors.Join(errs...))
}

// again repeats a call that the database rolled back because of another.
func again(ctx context.Context, f func() error) error {
	err := f()
	for errors.Is(err, persistence.ErrConflict) && ctx.Err() == nil {
		err = f()
	}
	return err
}

// pods joins n pods whose leases outlast the case.
func (w *world) pods(n int) []*worker {
	list := make([]*worker, n)
	for i := range list {
		list[i] = w.podFor(time.Hour)
	}
	return list
}

// claimOf names the claims of one pod, so that goroutines need not share a
// counter.
func (p *worker) claimOf(kind byte, round int) persistence.ClaimID {
	return persistence.ClaimID{kind, byte(p.id), byte(p.id >> 8), byte(round), byte(round >> 8)}
}

// take claims at most n tasks.
func (p *worker) take(ctx context.Context, round, n int) (grants []persistence.Grant, err error) {
	request := persistence.ClaimRequest{GrantRequest: p.grantRequest(p.claimOf(1, round), n), Suspects: true}
	err = again(ctx, func() error {
		out, err := p.w.store.ClaimTasks(ctx, request)
		grants = out.Grants
		return err
	})
	return grants, err
}

// tell records transitions, those that meet a held lock again.
func (p *worker) tell(ctx context.Context, round int, transitions []persistence.Transition) (ended int, err error) {
	record := persistence.Record{GrantRequest: persistence.GrantRequest{Pod: p.id, Claim: p.claimOf(2, round)}, Transitions: transitions, MaxLost: maxLost}
	for {
		var out persistence.Recorded
		err := again(ctx, func() (err error) {
			out, err = p.w.store.RecordTransitions(ctx, record)
			return err
		})
		if err != nil {
			return ended, err
		}
		ended += len(out.Wake.Ended)
		var busy []persistence.Transition
		for i, answer := range out.Answers {
			if answer.Result == lifecycle.Busy {
				busy = append(busy, record.Transitions[i])
			}
		}
		if len(busy) == 0 {
			return ended, nil
		}
		record.Transitions = busy
	}
}

// fate ends a task in one of many ways, the same for the same attempt.
func fate(g persistence.Grant) persistence.Transition {
	h := fnv.New32a()
	_, _ = h.Write(g.Task.Run[:])
	_, _ = h.Write([]byte{byte(g.Task.Step), byte(g.Epoch)})
	switch n := h.Sum32() % 16; {
	case n == 0:
		return failure(g)
	case n == 1:
		return retry(g, 0)
	case n == 2:
		return lost(g)
	case n == 3:
		return persistence.Transition{Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Released}
	case g.Step == "choose":
		return choose(g, []string{"yes", "no"}[n%2])
	}
	return completion(g)
}

// live claims and reports for some rounds, then leaves.
func (p *worker) live(ctx context.Context, rounds int) error {
	for round := range rounds {
		grants, err := p.take(ctx, round, 5)
		if err != nil {
			return err
		}
		var list []persistence.Transition
		for _, grant := range grants {
			list = append(list, fate(grant))
		}
		if round == rounds-1 && len(list) > 0 {
			list = list[1:] // one is left behind
		}
		if _, err := p.tell(ctx, round, list); err != nil {
			return err
		}
	}
	return again(ctx, func() error { return call(p.w.store.LeavePod(ctx, p.id)).err })
}

func (w *world) cancelSome(ctx context.Context, list []persistence.Trigger) error {
	for i, d := range list {
		if i%4 != 0 {
			continue
		}
		cancel := persistence.Cancel{Run: d.Run, Tenant: d.Tenant, Grace: time.Hour}
		if err := again(ctx, func() error { return call(w.store.CancelRun(ctx, cancel)).err }); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) keepHouse(ctx context.Context) error {
	for range 25 {
		for _, work := range []func() error{
			func() error { return call(w.store.FireTimers(ctx, w.leader, 20)).err },
			func() error { return call(w.store.ExpirePods(ctx, w.leader, maxLost, 20, time.Time{})).err },
			func() error { return call(w.store.ParkTasks(ctx, w.leader, 20)).err },
		} {
			if err := again(ctx, work); err != nil {
				return err
			}
		}
	}
	return nil
}
