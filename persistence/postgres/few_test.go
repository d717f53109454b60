package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// The statement for few completions does what that for many does, whatever stands
// in the way of a grant.
func TestFewAreRecordedAsMany(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*persistence.Record){
		"all granted":       func(*persistence.Record) {},
		"no handlers":       func(r *persistence.Record) { r.Handlers = nil },
		"another queue":     func(r *persistence.Record) { r.Queues = []string{"elsewhere"} },
		"no room":           func(r *persistence.Record) { r.Limit = 1 },
		"no slots to spare": func(r *persistence.Record) { r.Spare = 0 },
		"with progress":     func(r *persistence.Record) { r.Transitions[0].Progress = []byte("half") },
		"twice":             func(r *persistence.Record) { r.Transitions = append(r.Transitions, r.Transitions[0]) },
		"another epoch":     func(r *persistence.Record) { r.Transitions[0].Epoch++ },
	}
	graphs := []*workflow.Graph{storetest.Single(), storetest.Diamond(), storetest.Fan(5), storetest.Elsewhere(), storetest.Skipping()}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTwins(t, graphs...)
			for _, g := range graphs {
				w.trigger(w.one.draft(g, "known", 1))
				for grants := w.claim(10); len(grants) > 0; grants = w.claim(10) {
					for len(grants) > 0 {
						n := min(len(grants), 2)
						more := w.record(change, grants[:n]...)
						grants = append(grants[n:], more...)
					}
				}
			}
		})
	}
	t.Run("in parts", func(t *testing.T) {
		t.Parallel()
		g := storetest.Chain(3)
		w := newTwins(t, g)
		w.trigger(w.one.draft(g, "known", 3))
		grants, claim := w.claim(3), w.one.claimID()
		for i, want := range []int{1, 2, 2} { // the grants of a claim are answered together, and it has room for two
			more := w.record(func(r *persistence.Record) { r.Claim, r.Limit = claim, 2 }, grants[i])
			require.Len(t, more, want)
		}
	})
	t.Run("somebody waits", func(t *testing.T) {
		t.Parallel()
		g := storetest.Diamond()
		w := newTwins(t, g)
		w.trigger(w.one.draft(g, "known", 1))
		grants := w.claim(1)
		other := w.one.draft(g, "other", 2)
		for _, k := range []*kit{w.one, w.all} {
			k.ask(other...)
		}
		require.Empty(t, w.record(func(*persistence.Record) {}, grants...))
		require.False(t, w.one.store.fews.worthTrying(1), "not tried again at once")
	})
}

// Where there is little to do, the small statements are those that are sent, and no
// others: else the tests that compare them with the large ones would compare these
// with themselves.
func TestTheSmallStatementsAreSent(t *testing.T) {
	t.Parallel()
	d := schemas(t)(t)
	tracer := &counter{}
	store, err := Open(t.Context(), Options{Pool: d.user, Schema: strings.Trim(d.schema, `"`), Tracer: tracer})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	store.young = d.store.young
	d.store = store
	g := storetest.Diamond()
	k := newKit(d, g)
	pod := k.join(time.Hour)
	k.start(g, "known", 1)
	k.finish(pod)
	sent := func(do func()) []string {
		tracer.take()
		do()
		return tracer.take()
	}
	var grants []persistence.Grant
	record := func() {
		record := k.completion(pod, grants...)
		record.Limit, record.Spare = 10, 10
		record.Handlers, record.Queues = k.handlers, []string{defaultQueue}
		out, err := k.store.RecordTransitions(k.ctx, record)
		require.NoError(t, err)
		grants = out.Grants
	}
	small := []string{"check_pod", "lock_runs", "record_few"}
	store.firsts.hit(1) // the steps of the first run may have missed it
	require.Equal(t, []string{"trigger_one"}, sent(func() { k.start(g, "known", 1) }))
	require.Equal(t, []string{"claim_first"}, sent(func() { grants = k.claim(pod, 10) }))
	for _, next := range []int{2, 1, 0} {
		require.Equal(t, small, sent(record))
		require.Len(t, grants, next)
	}
	require.Equal(t, []string{"take_one"}, sent(func() {
		take := k.taking()
		take.Pod = pod
		out, err := k.store.TriggerRuns(k.ctx, k.draft(g, "known", 1), take)
		require.NoError(t, err)
		require.Len(t, out.Grants, 1)
	}))
	k.requireSound()
}
