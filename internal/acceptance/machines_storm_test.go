package acceptance

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/statemachine"
)

// A storm of signals is handled by several activations, where one would start too much, or take too
// long.
func TestAMachineSurvivesAStorm(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]time.Duration{"that starts much": 0, "that takes long": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				_, handle := startMachine(t, machineOf(func(m *statemachine.Builder[int, tally, []string]) {
					jobs := statemachine.Activity(m, "job", func(_ context.Context, n int) (string, error) {
						time.Sleep(time.Duration(n) * time.Hour) // keeps the slot
						return "", nil
					})
					m.OnStart(func(a *acting, n int) { jobs.Start(a, n) })
					statemachine.OnCompleted(m, jobs, func(a *acting, _ string) { a.State.Done = append(a.State.Done, a.ID) })
					statemachine.OnSignal(m, enact, func(a *acting, n int) {
						time.Sleep(slow)
						for range n {
							jobs.Start(a, 0)
						}
					})
					statemachine.OnSignal(m, goOn, func(a *acting, _ string) { a.Complete(a.State.Done) })
				}), slots(1))
				run := begin(t, handle, 1)
				time.Sleep(time.Minute)
				for range 300 {
					require.NoError(t, enact.Send(t.Context(), run, 5))
				}
				time.Sleep(3 * time.Hour)
				require.NoError(t, goOn.Send(t.Context(), run, ""))
				out, err := run.Await(t.Context())
				require.NoError(t, err)
				require.Len(t, out, 1501)
			})
		})
	}
}
