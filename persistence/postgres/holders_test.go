package postgres

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// askAgain lets the store ask at once whether those go on who were waited for in vain: it
// does so ten times a second.
func (k *kit) askAgain() {
	k.store.strained.mu.Lock()
	defer k.store.strained.mu.Unlock()
	k.store.strained.asked = time.Time{}
}

// goOn makes whoever is there now one who has gone on for a while.
func (k *kit) goOn() {
	k.t.Helper()
	k.store.strained.mu.Lock()
	for i := range k.store.strained.marks {
		k.store.strained.marks[i].at = k.store.strained.marks[i].at.Add(-goesOnFor)
	}
	k.store.strained.mu.Unlock()
	require.Positive(k.t, k.store.strained.before())
}

// Who was waited for in vain is not waited for again: all that a store does leaves out
// what that transaction holds, and nothing else, until it ends.
func TestWhoHoldsIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	for what, hold := range holds() {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			g := storetest.Diamond()
			tracer := &counter{}
			k := newKit(openDatabase(t, Options{Tracer: tracer}), g)
			pod := k.join(time.Hour)
			for _, tenant := range []string{"a", "b"} {
				k.start(g, tenant, 1)
			}
			k.finish(pod) // all counters are there
			for _, tenant := range []string{"a", "b"} {
				k.start(g, tenant, 2)
			}
			running := k.claim(pod, 10)
			require.Len(t, running, 4)
			release := hold(k)
			record := func() {
				t.Helper()
				for i, answer := range k.send(k.completion(pod, running...)) {
					require.Equal(t, running[i].Tenant == "a", answer == lifecycle.Busy)
				}
			}
			record()
			require.Equal(t, lockCalm, k.store.strained.mode())
			holders, noted := k.store.strained.known(), k.store.strained.noted
			require.Len(t, holders, 1)
			tracer.take()
			for range 3 {
				k.askAgain()
				record()
			}
			names := tracer.take()
			require.Contains(t, names, "find_alive")
			require.Contains(t, names, "known_held")
			require.Equal(t, noted, k.store.strained.noted, "nobody is waited for")
			require.Equal(t, holders, k.store.strained.known())
			k.start(g, "b", 1)
			release()
			k.askAgain()
			k.complete(pod, slices.DeleteFunc(running, func(g persistence.Grant) bool { return g.Tenant == "b" })...)
			require.Equal(t, lockWaiting, k.store.strained.mode())
			k.finish(pod)
			k.requireSound()
		})
	}
}

// A step whose run, or whose tenant's counters, somebody is known to hold is not executed
// in its transaction: what its completion may need cannot be had. Others are.
func TestAStepOfAHeldRunIsNotBegun(t *testing.T) {
	t.Parallel()
	for what, hold := range holds() {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			g := storetest.Diamond()
			k, pod := withCounters(t, g, "a", "b")
			k.start(g, "a", 2)
			k.start(g, "b", 1)
			grants := map[string][]persistence.Grant{}
			for _, grant := range k.claim(pod, 3) {
				grants[grant.Tenant] = append(grants[grant.Tenant], grant)
			}
			execute := func(grant persistence.Grant) (calls int, answer lifecycle.Answer, err error) {
				record := k.completion(pod, grant)
				transition := record.Transitions[0]
				record.Transitions, record.Task = nil, grant.Task
				out, err := k.store.RecordInTx(k.ctx, record, func(context.Context, any) (persistence.Transition, error) {
					calls++
					return transition, nil
				})
				if err == nil {
					answer = out.Answers[0].Result
				}
				return calls, answer, err
			}
			release := hold(k)
			calls, _, err := execute(grants["a"][0])
			require.Equal(t, 1, calls, "nobody knows yet")
			require.ErrorIs(t, err, persistence.ErrUnavailable)
			for _, grant := range grants["a"] {
				calls, answer, err := execute(grant)
				require.NoError(t, err)
				require.Equal(t, lifecycle.Busy, answer)
				require.Zero(t, calls)
				require.Zero(t, k.user.Stat().AcquiredConns())
			}
			moved := func(tenant string) {
				t.Helper()
				for _, grant := range grants[tenant] {
					calls, answer, err := execute(grant)
					require.NoError(t, err)
					require.Equal(t, lifecycle.Moved, answer)
					require.Equal(t, 1, calls)
				}
			}
			moved("b")
			release()
			k.askAgain()
			moved("a")
			k.requireSound()
		})
	}
}

// firstTasks are those of runs.
func firstTasks(runs []workflow.RunID) (tasks taskIDs) {
	for _, run := range runs {
		tasks = append(tasks, workflow.TaskID{Run: run})
	}
	return tasks
}

// holds are what somebody may hold of tenant a, and how.
func holds() map[string]func(*kit) func() {
	return map[string]func(*kit) func(){
		"counters": func(k *kit) func() { return k.holdCounters("a") },
		"runs": func(k *kit) func() {
			return k.hold("select from {schema}.workflow_runs where tenant = 'a' for update")
		},
		"tasks": func(k *kit) func() {
			return k.hold("select from {schema}.tasks t join {schema}.workflow_runs r on r.id = t.run_id where r.tenant = 'a' for update of t")
		},
		"children": func(k *kit) func() {
			return k.hold("select from {schema}.tasks t join {schema}.workflow_runs r on r.id = t.run_id where r.tenant = 'a' and t.pending > 0 for update of t")
		},
		"runs in a savepoint": func(k *kit) func() {
			return k.hold(`do $$ begin
				update {schema}.workflow_runs set labels = labels where tenant = 'a';
			exception when division_by_zero then null; end $$`)
		},
		// Several who share a lock stand in the row as one number, that of their set.
		"tasks, shared": func(k *kit) func() {
			share := "select from {schema}.tasks t join {schema}.workflow_runs r on r.id = t.run_id where r.tenant = 'a' for share of t"
			first, second := k.hold(share), k.hold(share)
			return func() { first(); second() }
		},
	}
}

// Each savepoint of a transaction has a number of its own, and nobody can tell from it
// whose it is: once somebody is known to hold something, whoever has gone on for a while
// is not waited for.
func TestManySavepointsOfOneTransaction(t *testing.T) {
	t.Parallel()
	g := storetest.Diamond()
	k := newKit(openDatabase(t, Options{}), g)
	pod := k.join(time.Hour)
	k.start(g, "b", 15)
	k.start(g, "a", 150)
	grants := map[string][]persistence.Grant{}
	for _, grant := range k.claim(pod, 165) {
		grants[grant.Tenant] = append(grants[grant.Tenant], grant)
	}
	release := k.hold(`do $$ declare r record; begin
		for r in select id from {schema}.workflow_runs where tenant = 'a' loop
			begin
				perform from {schema}.workflow_runs where id = r.id for update;
			exception when division_by_zero then null; end;
		end loop; end $$`)
	record := func(at int) {
		t.Helper()
		batch := append(slices.Clone(grants["a"][10*at:10*at+10]), grants["b"][at])
		for i, answer := range k.send(k.completion(pod, batch...)) {
			require.Equal(t, batch[i].Tenant == "a", answer == lifecycle.Busy)
		}
	}
	record(0)
	k.askAgain()
	require.Equal(t, lockCalm, k.store.locking(k.ctx))
	require.Zero(t, k.store.strained.before())
	k.goOn()
	noted := k.store.strained.noted
	for at := 1; at < 15; at++ {
		record(at)
	}
	require.Equal(t, noted, k.store.strained.noted, "nobody is waited for")
	require.Len(t, k.store.strained.known(), 10, "of the first ten")
	release()
	k.askAgain()
	k.complete(pod, grants["a"]...)
	require.Equal(t, lockWaiting, k.store.strained.mode())
	k.finish(pod)
	k.requireSound()
}

// A run that is not there, or has long ended, is no run that somebody holds.
func TestWhatIsNotThereIsNotHeld(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k := newKit(openDatabase(t, Options{}), g)
	pod := k.join(time.Hour)
	held := k.start(g, "a", 1)
	running := k.claim(pod, 1)
	ghost := running[0]
	ghost.Task.Run = k.draft(g, "a", 1)[0].Run
	release := k.hold("select from {schema}.workflow_runs where id = $1 for update", [16]byte(held[0]))
	for _, mode := range []locking{lockWaiting, lockCalm, lockCalm} {
		require.Equal(t, mode, k.store.strained.mode())
		require.Equal(t, []lifecycle.Answer{lifecycle.Busy, lifecycle.Stale}, k.send(k.completion(pod, running[0], ghost)))
	}
	release()
	k.askAgain()
	k.complete(pod, running...)
	k.requireSound()
}

// A set of those who share a lock goes on as long as one of them does.
func TestTheLastOfThoseWhoShareALock(t *testing.T) {
	t.Parallel()
	g := storetest.Diamond()
	k, pod := withCounters(t, g, "a")
	k.start(g, "a", 2)
	running := k.claim(pod, 1)
	share := `select from {schema}.tenant_groups g join {schema}.tenants n using (group_id) where n.tenant = 'a' for share of g`
	first, second := k.hold(share), k.hold(share)
	record := func() {
		require.Equal(t, []lifecycle.Answer{lifecycle.Busy}, k.send(k.completion(pod, running...)))
		k.askAgain()
		require.Equal(t, lockCalm, k.store.locking(k.ctx))
	}
	record()
	noted := k.store.strained.noted
	record()
	first()
	record()
	require.Equal(t, noted, k.store.strained.noted, "nobody is waited for")
	second()
	k.askAgain()
	require.Equal(t, lockWaiting, k.store.locking(k.ctx))
	k.complete(pod, running...)
	k.finish(pod)
	k.requireSound()
}

// Where it cannot be told who holds something, all that anybody holds is left out for a
// while, and claims go around it.
func TestSomebodyUnknownHolds(t *testing.T) {
	t.Parallel()
	g := storetest.Diamond()
	k, pod := withCounters(t, g, "a")
	k.start(g, "a", 2)
	running := k.claim(pod, 1)
	strained := &k.store.strained
	strained.note(k.ctx)
	require.Equal(t, lockWaiting, strained.mode())
	strained.note(k.ctx) // and nobody was found meanwhile
	require.Equal(t, lockStrict, strained.mode())
	release := k.holdCounters("a")
	noted := strained.noted
	require.Equal(t, []lifecycle.Answer{lifecycle.Busy}, k.send(k.completion(pod, running...)))
	require.Empty(t, k.claim(pod, 10))
	require.Equal(t, noted, strained.noted, "nobody is waited for")
	release()
	strained.blind = clock.System{}.Now().Add(-strainedFor)
	k.askAgain()
	require.NotEmpty(t, k.claim(pod, 10))
	k.complete(pod, running...)
	k.finish(pod)
	k.requireSound()
}

// A number that is nobody's, and goes on to stand in what is held, keeps looks strict.
func TestANumberThatIsNobodysKeepsLooksStrict(t *testing.T) {
	t.Parallel()
	var s strained
	s.note(t.Context())
	s.note(t.Context())
	require.Equal(t, lockStrict, s.mode())
	s.found([]int64{7})
	s.keep([]int64{7}, nil)
	require.Equal(t, []int64{7}, s.known(), "it was met a moment ago")
	before := clock.System{}.Now().Add(time.Second - strainedFor)
	s.blind = before
	s.holders[7].first = s.holders[7].first.Add(-strangerLong)
	s.found([]int64{7})
	require.True(t, s.blind.After(before), "it still stands there")
}

// Numbers that are met once, as of those who use a row for moments, are forgotten.
func TestHoldersAreForgotten(t *testing.T) {
	t.Parallel()
	var s strained
	s.note(t.Context())
	s.found([]int64{7, 8})
	require.Equal(t, []int64{7, 8}, s.stale())
	require.Nil(t, s.stale(), "not again at once")
	s.keep([]int64{7, 8}, []int64{7})
	require.Equal(t, []int64{7}, s.known())
	s.note(t.Context())
	require.Equal(t, lockCalm, s.mode(), "somebody was found the last time")
	s.found([]int64{7})
	s.note(t.Context())
	require.Equal(t, lockStrict, s.mode(), "nobody else was")
	s.found([]int64{9})
	s.keep([]int64{7, 9}, []int64{7})
	require.Equal(t, []int64{7, 9}, s.known())
	s.holders[9].last = s.holders[9].last.Add(-strangerLong)
	s.keep([]int64{7, 9}, nil)
	require.Empty(t, s.known())
	for number := range int64(2 * holdersMax) {
		s.found([]int64{100 + number})
	}
	require.Len(t, s.known(), holdersMax)
}

// Triggers and claims leave out the same.
func TestTriggersAndClaimsBesideWhoIsKnown(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k := newKit(openDatabase(t, Options{}), g)
	pod := k.join(time.Hour)
	held := k.start(g, "a", 2)
	k.start(g, "b", 1)
	release := k.holdCounters("a")
	k.store.lookForHolders(k.ctx, firstTasks(held))
	require.Equal(t, lockCalm, k.store.strained.mode())
	noted := k.store.strained.noted
	answers := k.ask(k.draft(g, "a", 1)[0], k.draft(g, "b", 1)[0])
	require.Equal(t, persistence.KeyBusy, answers[0].Result)
	require.Equal(t, persistence.Triggered, answers[1].Result)
	require.Equal(t, noted, k.store.strained.noted, "nobody is waited for")
	granted := k.claim(pod, 10)
	require.Len(t, granted, 2)
	for _, grant := range granted {
		require.Equal(t, "b", grant.Tenant)
	}
	release()
	k.askAgain()
	var runs []workflow.RunID
	for _, grant := range k.claim(pod, 10) {
		runs = append(runs, grant.Task.Run)
	}
	require.ElementsMatch(t, held, runs)
	k.requireSound()
}
