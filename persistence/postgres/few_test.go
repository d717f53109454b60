package postgres

import (
	"testing"

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
		"no handlers":       func(r *persistence.Record) { r.InlineHandlers = nil },
		"another queue":     func(r *persistence.Record) { r.InlineQueues = []string{"elsewhere"} },
		"no room":           func(r *persistence.Record) { r.InlineLimit = 1 },
		"no slots to spare": func(r *persistence.Record) { r.InlineSpare = 0 },
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
			more := w.record(func(r *persistence.Record) { r.Claim, r.InlineLimit = claim, 2 }, grants[i])
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
		require.False(t, w.one.store.fews.expected(1), "not tried again at once")
	})
}
