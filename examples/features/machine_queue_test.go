package features_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/statemachine"
	"github.com/troupe-dev/troupe/troupetest"
)

// films renders the frames of a film, all at once, on pods with a GPU. The machine itself is
// activated by the other pods.
func films() *statemachine.Machine[int, int, string] {
	type activation = statemachine.Activation[int, string]
	return statemachine.Define("films", func(m *statemachine.Builder[int, int, string]) {
		render := statemachine.Activity(m, "render", func(_ context.Context, frame int) (int, error) {
			return frame, nil
		}, troupe.Queue("gpu"))
		m.OnStart(func(a *activation, frames int) {
			a.State = frames // that are missing
			for frame := range frames {
				render.Start(a, frame)
			}
		})
		statemachine.OnCompleted(m, render, func(a *activation, _ int) {
			if a.State--; a.State == 0 {
				a.Complete(fmt.Sprintf("%s was the last", a.ID))
			}
		})
	})
}

// A pod that serves the queue "gpu" alone executes the activities of that queue, and no
// activations; the others do the opposite.
func TestQueuesOfAMachine(t *testing.T) {
	pool, schema := database(t)
	var handle *troupe.Handle[int, string]
	for pod, queues := range map[string]map[string]int{"with-gpu": {"gpu": 1}, "without": {"default": 10}} {
		engine := troupetest.Engine(t, pool, troupe.Config{Schema: schema, PodName: pod, QueueSlots: queues})
		handle = troupetest.Register(t, engine, films())
		troupetest.Start(t, engine)
	}
	run, err := handle.RunNoWait(t.Context(), 20)
	require.NoError(t, err)
	require.Contains(t, troupetest.Await(t, run), "was the last")
	status, err := run.Status(t.Context())
	require.NoError(t, err)
	require.Len(t, status.Steps, 1+20)
	for _, step := range status.Steps {
		switch step.Name {
		case "machine":
			require.Equal(t, "without", step.Pod)
		default:
			require.Equal(t, "with-gpu", step.Pod, step.Name)
		}
	}
}
