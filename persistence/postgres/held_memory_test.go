package postgres

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// What a look has found is taken for true for ten times as long as it took, ten seconds at
// most, and not behind the end of whoever holds it.
func TestWhatALookHasFoundIsRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		held, other := workflow.TaskID{Run: workflow.RunID{1}}, workflow.TaskID{Run: workflow.RunID{2}}
		s := &strained{}
		s.found([]int64{7})
		remembers := func() (is, tenant bool) {
			rest := s.withoutHeld(taskIDs{held, other}, func(run workflow.RunID, whole bool) {
				require.Equal(t, held.Run, run)
				is, tenant = true, whole
			})
			require.Contains(t, rest, other)
			return is, tenant
		}
		for took, kept := range map[time.Duration]time.Duration{time.Millisecond: 10 * time.Millisecond, time.Minute: heldMax} {
			s.remember(taskIDs{held, other}, map[workflow.RunID]heldBy{held.Run: {holder: 900, tenant: took > time.Second}}, took)
			time.Sleep(kept - time.Nanosecond)
			is, tenant := remembers()
			require.True(t, is)
			require.Equal(t, took > time.Second, tenant)
			time.Sleep(time.Nanosecond)
			is, _ = remembers()
			require.False(t, is)
		}
		s.remember(taskIDs{held}, map[workflow.RunID]heldBy{held.Run: {holder: 900}}, time.Minute)
		require.Equal(t, []int64{7, 900}, s.stale())
		s.keep([]int64{7, 900}, []int64{7, 900})
		is, _ := remembers()
		require.True(t, is)
		s.keep([]int64{7, 900}, []int64{7})
		is, _ = remembers()
		require.False(t, is, "who held it has ended")
	})
}

// A task of which a slow look has found that somebody holds a child waits without another
// look, and is recorded once that has ended.
func TestARememberedTaskWaitsWithoutALook(t *testing.T) {
	t.Parallel()
	g, tracer := storetest.Diamond(), &counter{}
	k := newKit(openDatabase(t, Options{Tracer: tracer}), g)
	pod := k.join(time.Hour)
	runs := append(k.start(g, "a", 1), k.start(g, "b", 1)...)
	grants := k.claim(pod, 2)
	release := k.hold("select from {schema}.tasks where run_id = $1 and step = 1 for update", [16]byte(runs[0]))
	k.store.lookForHolders(k.ctx, firstTasks(runs[:1]))
	require.Equal(t, []lifecycle.Answer{lifecycle.Busy}, k.send(k.completion(pod, grants[0])))

	k.store.strained.mu.Lock()
	require.Len(t, k.store.strained.tasks, 1, "it was found")
	for task, remembered := range k.store.strained.tasks {
		remembered.until = time.Now().Add(time.Hour) // the look took long
		k.store.strained.tasks[task] = remembered
	}
	k.store.strained.mu.Unlock()
	tracer.take()
	for range 3 {
		require.Equal(t, []lifecycle.Answer{lifecycle.Busy}, k.send(k.completion(pod, grants[0])))
	}
	require.True(t, k.store.isHeld(k.ctx, grants[0].Task))
	require.NotContains(t, tracer.take(), "known_held")
	require.Equal(t, []lifecycle.Answer{lifecycle.Busy, lifecycle.Moved}, k.send(k.completion(pod, grants...)), "others are looked at")
	release()
	k.askAgain()
	require.Equal(t, []lifecycle.Answer{lifecycle.Moved}, k.send(k.completion(pod, grants[0])))
	k.finish(pod)
	k.requireSound()
}
