package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// A tenant whose counters are locked waits alone: triggers, completions and timers of
// others are stored beside it.
func TestATenantWhoseCountersAreHeldWaitsAlone(t *testing.T) {
	t.Parallel()
	diamond, nap := storetest.Diamond(), storetest.Nap(time.Hour)
	k := newFixture(schemas(t)(t), diamond, nap)
	pod := k.join(1000 * time.Hour)
	for _, tenant := range []string{"a", "b"} {
		k.start(diamond, tenant, 1)
		k.start(nap, tenant, 1)
	}
	k.complete(pod, k.claim(pod, 10)...) // what follows is behind the sleeps, or in the queue
	require.NoError(t, k.advance(k.ctx, time.Hour))
	k.start(diamond, "a", 1)
	k.start(diamond, "b", 1)
	claimed := k.claim(pod, 100)
	epoch := k.bump(pod)
	release := k.holdCounters("a")

	ask := func() (map[string]persistence.TriggerResult, []persistence.Trigger) {
		list := []persistence.Trigger{k.draft(diamond, "a", 1)[0], k.draft(diamond, "b", 1)[0], k.draft(diamond, "c", 1)[0]}
		results := map[string]persistence.TriggerResult{}
		for i, answer := range k.ask(list...) {
			results[list[i].Tenant] = answer.Result
		}
		return results, list
	}
	want := map[string]persistence.TriggerResult{"a": persistence.KeyBusy, "b": persistence.Triggered, "c": persistence.Triggered}
	results, _ := ask() // waits for the lock
	require.Equal(t, want, results)
	var list []persistence.Trigger
	within(t, soon, func() {
		results, list = ask()
		require.Equal(t, want, results)
	})

	record := k.completion(pod, claimed...)
	answers := map[string]map[lifecycle.Answer]int{"a": {}, "b": {}}
	within(t, soon, func() {
		for i, answer := range k.send(record) {
			answers[claimed[i].Tenant][answer]++
		}
	})
	require.Zero(t, answers["a"][lifecycle.Moved])
	require.Positive(t, answers["a"][lifecycle.Busy])
	require.Positive(t, answers["b"][lifecycle.Moved])
	require.Zero(t, answers["b"][lifecycle.Busy])
	fired := k.fire(epoch, 100)
	require.Equal(t, 1, fired.Count)
	require.LessOrEqual(t, fired.Next.Sub(fired.Now), quarantine.RestMax, "the other one is tried again")
	k.requireSound()

	release()
	k.endRests()
	require.Equal(t, persistence.Triggered, k.ask(list[0])[0].Result)
	for _, answer := range k.send(record) {
		require.Contains(t, []lifecycle.Answer{lifecycle.Moved, lifecycle.AlreadyYours}, answer)
	}
	fired = k.fire(epoch, 100)
	require.Equal(t, 1, fired.Count)
	k.finish(pod)
	k.requireSound()
}

// Whole groups wait for the tenant of one of their triggers.
func TestAGroupWaitsForTheTenantOfOneOfItsTriggers(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k := newFixture(schemas(t)(t), g)
	k.start(g, "a", 1)
	k.start(g, "b", 1)
	release := k.holdCounters("a")
	list := []persistence.Trigger{k.draft(g, "b", 1)[0], k.draft(g, "a", 1)[0], k.draft(g, "b", 1)[0]}
	list[0].Group, list[1].Group, list[0].Key = 1, 1, "x"
	answers := k.ask(list...)
	require.Equal(t, []persistence.TriggerResult{persistence.KeyBusy, persistence.KeyBusy, persistence.Triggered},
		[]persistence.TriggerResult{answers[0].Result, answers[1].Result, answers[2].Result})
	_, err := k.store.Run(k.ctx, "", list[0].Run)
	require.ErrorIs(t, err, persistence.ErrRunNotFound)
	release()
	k.endRests()
	require.Equal(t, persistence.Triggered, k.ask(list[:2]...)[0].Result)
	k.requireSound()
}

// Submissions of others begin though the counters of a tenant are locked whose
// submissions are older.
func TestSubmissionsBesideLockedCounters(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k, pod := withCounters(t, g, "a", "b")
	tx, err := k.user.Begin(k.ctx)
	require.NoError(t, err)
	for _, tenant := range []string{"a", "a", "a", "b"} {
		answer, err := k.store.TriggerInTx(k.ctx, tx, k.draft(g, tenant, 1)[0])
		require.NoError(t, err)
		require.Equal(t, persistence.Triggered, answer.Result)
	}
	require.NoError(t, tx.Commit(k.ctx))
	release := k.holdCounters("a")
	out := k.drain(2)
	require.Equal(t, 1, out.Count)
	require.Positive(t, out.Again)
	granted := k.claim(pod, 10)
	require.Len(t, granted, 1)
	require.Equal(t, "b", granted[0].Tenant)
	k.complete(pod, granted...)
	release()
	k.endRests()
	out = k.drain(10)
	require.Equal(t, 3, out.Count)
	require.Zero(t, out.Again)
	k.finish(pod)
	k.requireSound()
}

// A tenant whose counters are still locked when it has rested rests for longer: claims do
// not wait for it again at once.
func TestATenantWhoseCountersStayLockedRestsForLonger(t *testing.T) {
	t.Parallel()
	g := storetest.Single()
	k, pod := withCounters(t, g, "a", "b")
	k.start(g, "b", 2)
	release := k.holdCounters("a")
	group := value[int32](k.database, "select group_id from {schema}.tenants where tenant = 'a'")
	k.store.quarantine.AddCounters([]int32{group})
	k.endRests()
	require.Len(t, k.claim(pod, 1), 1)
	require.Greater(t, k.store.quarantine.Again(), quarantine.RestMin)
	release()
	k.endRests()
	require.Len(t, k.claim(pod, 1), 1)
	require.Empty(t, k.store.quarantine.RestedTenants())
}

// endRests ends the rest of all that is in quarantine, as time does.
func (k *fixture) endRests() { k.store.quarantine.RestUntil(time.Now()) }

// restUntil has all that rests do so until then.
func (k *fixture) restUntil(until time.Time) { k.store.quarantine.RestUntil(until) }
