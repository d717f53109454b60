package acceptance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// A reader shows a run, its payloads as far as asked for, and what it waits for; no
// payload comes with the run.
func TestReaderShowsARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := startOutputs(t)
		defer o.release()
		reader := o.engine.Reader()
		status, err := reader.Run(t.Context(), "", o.run.ID())
		require.NoError(t, err)
		require.Zero(t, o.reads.whole)
		sizes := map[string]int{}
		for _, step := range status.Steps {
			require.Nil(t, step.Output)
			sizes[step.Name] = step.OutputSize
		}
		require.Equal(t, map[string]int{"text": len(`"fourfour"`), "length": 1, "never": -1, "fail": -1, "last": -1}, sizes)

		payload := func(step string, limit int) troupe.Payload {
			payload, err := reader.Payload(t.Context(), "", o.run.ID(), step, limit)
			require.NoError(t, err)
			return payload
		}
		require.Equal(t, troupe.Payload{Data: []byte(`"four"`), Size: 6}, payload("", 0))
		require.Equal(t, troupe.Payload{Data: []byte(`"four`), Size: 10, Truncated: true}, payload("text", 5))
		require.Equal(t, troupe.Payload{Data: []byte("8"), Size: 1}, payload("length", 1))
		require.Zero(t, o.reads.whole)
		for step, want := range map[string]error{"never": troupe.ErrStepSkipped, "last": troupe.ErrStepNotEnded, "absent": troupe.ErrStepNotFound} {
			_, err := reader.Payload(t.Context(), "", o.run.ID(), step, 0)
			require.ErrorIs(t, err, want)
		}
		_, err = reader.Payload(t.Context(), "", o.run.ID(), "fail", 0)
		require.ErrorAs(t, err, new(*troupe.StepError))
		for _, call := range []func(tenant string) error{
			func(tenant string) error { _, err := reader.Run(t.Context(), tenant, o.run.ID()); return err },
			func(tenant string) error {
				_, err := reader.Payload(t.Context(), tenant, o.run.ID(), "", 0)
				return err
			},
			func(tenant string) error {
				_, _, err := reader.Events(t.Context(), tenant, o.run.ID(), nil, 0)
				return err
			},
			func(tenant string) error { _, err := reader.Explain(t.Context(), tenant, o.run.ID()); return err },
		} {
			require.NoError(t, call(""))
			require.ErrorIs(t, call("another"), troupe.ErrRunNotFound)
		}
		page, err := reader.Runs(t.Context(), troupe.Filter{})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
	})
}

// A run is followed from position to position, each of which survives as text.
func TestReaderFollowsARun(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, troupe.Define("sleep", func(b *troupe.Builder[bool]) troupe.StepRef[string] {
			return troupe.Step0(b, "after", clockIn(&diary{}, "after"), troupe.After(troupe.Sleep(b, "sleep", day)))
		}))
		run := begin(t, handle, true)
		reader := engine.Reader()
		cursor := ""
		next := func(limit int) string {
			seen, err := troupe.ParseEventPosition(cursor)
			require.NoError(t, err)
			events, position, err := reader.Events(t.Context(), "", run.ID(), seen, limit)
			require.NoError(t, err)
			cursor = position.String()
			var told []string
			for _, e := range events {
				told = append(told, strings.TrimSpace(e.Step+" "+e.Kind))
			}
			return strings.Join(told, ", ")
		}
		require.Equal(t, "run_created, run_started", next(2))
		require.Equal(t, "sleep sleeping", next(0))
		require.Empty(t, next(0))
		time.Sleep(2 * day)
		synctest.Wait()
		require.Equal(t, "sleep woken, after queued, after started, after completed, run_completed", next(100))
		require.Empty(t, next(0))
		require.Equal(t, "3.2.3", cursor)
	})
}

// A reader shows queues, parked work, workflows and pods.
func TestReaderShowsWhatWorkWaitsFor(t *testing.T) {
	virtual(t, func(t *testing.T) {
		release := make(chan struct{})
		flow := troupe.Define("held", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			first := troupe.Step0(b, "first", func(_ context.Context, in string) (string, error) { <-release; return in, nil })
			nap := troupe.Sleep(b, "nap", time.Hour, troupe.After(first))
			return troupe.Step1(b, "last", func(_ context.Context, _, in string) (string, error) { return in, nil }, first, troupe.After(nap))
		})
		engine, handle := start(t, flow, slots(1), func(c *troupe.Config) { c.PodName = "pod-1" })
		for range 3 {
			begin(t, handle, "x", troupe.Tenant("acme"))
		}
		defer close(release)
		time.Sleep(time.Minute)
		reader := engine.Reader()
		queues, err := reader.Queues(t.Context(), "acme")
		require.NoError(t, err)
		require.Equal(t, []troupe.QueueStatus{{
			Name: "default", Ready: 2, OldestReady: time.Minute, Running: 1, Tenants: []troupe.TenantPlace{{Tenant: "acme", New: 2}},
		}}, queues)
		queues, err = reader.Queues(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, []troupe.QueueStatus{{Name: "default"}}, queues, "the default tenant has nothing there")
		parked, err := reader.Parked(t.Context(), "acme")
		require.NoError(t, err)
		require.Empty(t, parked)

		workflows, err := reader.Workflows(t.Context())
		require.NoError(t, err)
		require.Len(t, workflows, 1)
		require.Equal(t, troupe.WorkflowVersion{Workflow: "held", Definition: workflows[0].Definition, Steps: 3}, workflows[0])
		steps, err := reader.Steps(t.Context(), workflows[0].Definition)
		require.NoError(t, err)
		require.Len(t, steps, 3)
		require.Equal(t, troupe.WorkflowStep{Name: "last", Parents: []string{"first"}, Handler: steps[2].Handler}, steps[2])
		require.Len(t, steps[2].Handler, 12)
		require.True(t, steps[1].Sleeps)

		pods, err := reader.Pods(t.Context())
		require.NoError(t, err)
		require.Len(t, pods, 1)
		require.Equal(t, "pod-1", pods[0].Name)
		require.True(t, pods[0].Leads)
		require.Equal(t, 3*time.Hour-time.Minute, pods[0].Lease)
		require.NoError(t, reader.Close())
	})
}

func TestBadRequestsOfReaders(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, single(number))
		run, reader := begin(t, handle, ""), engine.Reader()
		_, err := reader.Payload(t.Context(), "", run.ID(), "step", -1)
		require.ErrorContains(t, err, "limit is -1: use 0 or more")
		_, _, err = reader.Events(t.Context(), "", run.ID(), nil, -1)
		require.ErrorContains(t, err, "limit is -1: use 0 or more")
		_, err = reader.Queues(t.Context(), "nul\x00")
		require.ErrorContains(t, err, "tenant: ")
		_, err = reader.Parked(t.Context(), strings.Repeat("x", 10_000))
		require.ErrorContains(t, err, "tenant: ")
		for _, text := range []string{"", "12", "xyz", strings.Repeat("0", 66)} {
			_, err = reader.Steps(t.Context(), text)
			require.ErrorContains(t, err, "use a hash as Workflows returns it")
		}
		_, err = reader.Steps(t.Context(), strings.Repeat("0", 64))
		require.ErrorIs(t, err, troupe.ErrDefinitionNotFound)
		_, err = reader.Run(t.Context(), "", troupe.RunID{1})
		require.ErrorIs(t, err, troupe.ErrRunNotFound)
		_, err = troupe.OpenReader(t.Context(), nil, "troupe")
		require.ErrorContains(t, err, "the pool is nil")
		idle, err := troupe.NewInMemory(troupe.Config{})
		require.NoError(t, err)
		_, err = idle.Reader().Pods(t.Context())
		require.True(t, errors.Is(err, troupe.ErrNotStarted))
	})
}
