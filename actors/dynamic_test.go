package actors

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// making is a store whose first steps make two dynamic tasks each.
type making struct{ persistence.Store }

func (m making) RecordTransitions(ctx context.Context, r persistence.Record) (persistence.Recorded, error) {
	r.Transitions = slices.Clone(r.Transitions)
	for i := range r.Transitions {
		if t := &r.Transitions[i]; t.Task.Step == 0 {
			t.Make = []persistence.DynamicTask{{Declared: "a", Name: "a#1"}, {Declared: "a", Name: "a#2"}}
		}
	}
	return m.Store.RecordTransitions(ctx, r)
}

// A dynamic task is executed by the function of its step, and has a name and an idempotency
// key of its own.
func TestDynamicTasksAreExecutedByTheFunctionOfTheirStep(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		keys := make(chan string, 10)
		w.faults.Store = making{w.store}
		p := w.single(func(ctx context.Context, _ Inputs) (Output, error) {
			about := AttemptFrom(ctx).Info()
			keys <- about.Step + " " + about.IdempotencyKey
			return Output{}, nil
		}, Config{})
		run := w.trigger(p, storetest.Single().Name)
		w.completed(run)
		close(keys)
		var got []string
		for key := range keys {
			got = append(got, key)
		}
		slices.Sort(got)
		id := run.String()
		require.Equal(t, []string{"a " + id + "/a", "a#1 " + id + "/a#1", "a#2 " + id + "/a#2"}, got)
		require.EqualValues(t, 3, w.tasks(run)[2].Step)
	})
}
