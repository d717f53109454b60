package acceptance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// Runs are counted by state, and by what the caller asks for; a listing finds the same.
func TestReaderCountsRuns(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, single(func(_ context.Context, in string) (string, error) {
			if in == "bad" {
				return "", troupe.Class("broken", errors.New("it broke"))
			}
			return in, nil
		}))
		for _, in := range []string{"good", "bad", "good", "good"} {
			_, _ = handle.Run(t.Context(), in, troupe.Tenant("acme"))
		}
		reader := engine.Reader()
		counts := func(filter troupe.CountFilter) []troupe.RunCount {
			counts, err := reader.Counts(t.Context(), filter)
			require.NoError(t, err)
			return counts
		}
		require.Empty(t, counts(troupe.CountFilter{}), "it is another tenant's")
		require.Equal(t, []troupe.RunCount{{State: troupe.StateCompleted, Runs: 3}, {State: troupe.StateFailed, Runs: 1}},
			counts(troupe.CountFilter{Tenant: "acme"}))
		hour := time.Now().UTC().Truncate(time.Hour)
		require.Equal(t, []troupe.RunCount{{State: troupe.StateFailed, Workflow: "single", Tenant: "acme", From: hour, Width: time.Hour, Runs: 1}},
			counts(troupe.CountFilter{
				Tenant: "acme", States: []troupe.State{troupe.StateFailed}, Since: hour,
				By: troupe.CountByWorkflow | troupe.CountByTenant | troupe.CountByHour,
			}))
		require.Empty(t, counts(troupe.CountFilter{Tenant: "acme", Until: hour}))
		for _, filter := range []troupe.Filter{{Class: "broken"}, {FailedStep: "step"}, {States: []troupe.State{troupe.StateFailed}}} {
			filter.Tenant = "acme"
			page, err := reader.Runs(t.Context(), filter)
			require.NoError(t, err)
			require.Len(t, page.Runs, 1)
			require.Zero(t, page.Next)
		}
		for want, filter := range map[string]troupe.CountFilter{
			"Tenant: remove the NUL character":                                               {Tenant: "a\x00"},
			"Workflow: remove the NUL character":                                             {Workflow: "a\x00"},
			"Since is 1970-01-01T00:01:00Z: use an instant before Until":                     {Since: time.Unix(60, 0).UTC(), Until: time.Unix(60, 0).UTC()},
			"By is 8: add CountByWorkflow, CountByTenant and CountByHour, or none":           {By: 8},
			"States: no run is skipped: use pending, running, completed, failed or canceled": {States: []troupe.State{troupe.StateSkipped}},
		} {
			_, err := reader.Counts(t.Context(), filter)
			require.EqualError(t, err, "count runs: "+want)
		}
	})
}
