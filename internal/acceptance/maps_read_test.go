package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/explain"
)

// Statuses count the elements of a map, and pages have them.
func TestElementsAreReadByPage(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &desk{bad: map[int]bool{10: true}}
		engine, handle := start(t, d.settling(troupe.MaxConcurrency(4)), slots(3))
		run := begin(t, handle, 10)
		time.Sleep(1500 * time.Millisecond)
		want := troupe.MapStatus{Items: 10, Completed: 2, Failed: 1, Open: 4, Left: 3}
		step := stepOf(t, run, "read")
		require.Equal(t, want, step.Map)
		require.Equal(t, "waits for its elements: 4 of 10 are open, of which 3 run; 3 have not begun; 1 has failed", step.Waiting)
		reasons, err := run.Explain(t.Context())
		require.NoError(t, err)
		require.Equal(t, explain.CauseElements, reasons[0].Cause)

		page, err := run.Elements(t.Context(), "read", troupe.ElementFilter{Limit: 3})
		require.NoError(t, err)
		require.Equal(t, want, page.Map)
		require.Len(t, page.Elements, 3)
		e := page.Elements[1]
		require.Equal(t, []any{1, "read[1]", troupe.StateFailed, 1, -1, "torn", "busy"}, []any{e.Item, e.Name, e.State, e.Attempt, e.OutputSize, e.Class, e.Error})
		items := 3
		for filter := (troupe.ElementFilter{Limit: 3}); ; {
			if filter.After = page.Next; filter.After == 0 {
				break
			}
			page, err = engine.Elements(t.Context(), "", run.ID(), "read", filter)
			require.NoError(t, err)
			items += len(page.Elements)
		}
		require.Equal(t, 7, items)
		page, err = engine.Reader().Elements(t.Context(), "", run.ID(), "read", troupe.ElementFilter{States: []troupe.State{troupe.StateRunning, troupe.StateQueued}})
		require.NoError(t, err)
		require.Len(t, page.Elements, 4)
		payload, err := engine.Reader().Payload(t.Context(), "", run.ID(), "read[2]", 0)
		require.NoError(t, err)
		require.Equal(t, "21", string(payload.Data))

		text, err := json.Marshal(step)
		require.NoError(t, err)
		require.Contains(t, string(text), `"map":{"items":10,"completed":2,"failed":1,"open":4,"left":3}`)
		_, err = run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, troupe.MapStatus{Items: 10, Completed: 9, Failed: 1}, stepOf(t, run, "read").Map)

		for want, ask := range map[string]func() error{
			"the run has no such step": func() error { _, err := run.Elements(t.Context(), "other", troupe.ElementFilter{}); return err },
			"run not found": func() error {
				_, err := engine.Elements(t.Context(), "", troupe.RunID{1}, "read", troupe.ElementFilter{})
				return err
			},
			"it is no map: name a step that was declared with Map or MapSettled": func() error {
				_, err := run.Elements(t.Context(), "list", troupe.ElementFilter{})
				return err
			},
			"Limit is -1: use 0 or more": func() error { _, err := run.Elements(t.Context(), "read", troupe.ElementFilter{Limit: -1}); return err },
			"After is -1: use the Next of a page": func() error {
				_, err := run.Elements(t.Context(), "read", troupe.ElementFilter{After: -1})
				return err
			},
			"no element is skipped": func() error {
				_, err := run.Elements(t.Context(), "read", troupe.ElementFilter{States: []troupe.State{troupe.StateSkipped}})
				return err
			},
		} {
			require.ErrorContains(t, ask(), want)
		}
	})
}

// A map that completed before its run failed is taken over as it is: its elements are not executed
// again, and conditions look at its list again.
func TestAMapIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, codec := range map[string]troupe.Codec{"json": troupe.JSON{}, "sealed": sealed{troupe.JSON{}}} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				d, broken := &desk{}, true
				w := troupe.Define("over", func(b *troupe.Builder[int]) troupe.StepRef[string] {
					read := troupe.Map(b, "read", troupe.Step0(b, "list", list), d.read)
					long, short := troupe.If(read, func(list []int) bool { return len(list) > 2 })
					tell := func(_ context.Context, _ int, list []int) (string, error) {
						if broken {
							return "", errBusy
						}
						return fmt.Sprint(list), nil
					}
					troupe.Step1(b, "short", tell, read, short)
					return troupe.Step1(b, "long", tell, read, long)
				})
				engine, handle := start(t, w, coded(codec))
				run := begin(t, handle, 3)
				_, err := run.Await(t.Context())
				require.ErrorContains(t, err, `step "long": busy`)
				broken = false
				requeued, err := engine.DeadLetters().RequeueRun(t.Context(), "", run.ID(), troupe.RequeueOptions{})
				require.NoError(t, err)
				require.Equal(t, 2, requeued.TakenOver)
				again := handle.Get("", requeued.Run)
				out, err := again.Await(t.Context())
				require.NoError(t, err)
				require.Equal(t, "[1 11 21]", out)
				require.Equal(t, "completed list=completed read=completed short=skipped long=completed", states(t, again))
				require.Len(t, d.calls, 3)
				for key, n := range d.calls {
					require.Equal(t, 1, n, key)
				}
			})
		})
	}
}

// A cancel stops the elements, and makes no more.
func TestAMapIsCanceled(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &desk{}
		_, handle := start(t, d.reading(troupe.MaxConcurrency(4)), slots(2))
		run := begin(t, handle, 10)
		require.NoError(t, run.Cancel(t.Context(), "enough"))
		_, err := run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunCanceled)
		require.Equal(t, "canceled list=completed read=canceled", states(t, run))
		require.Len(t, d.calls, 2)
		page, err := run.Elements(t.Context(), "read", troupe.ElementFilter{})
		require.NoError(t, err)
		require.Len(t, page.Elements, 4)
		for _, e := range page.Elements {
			require.Equal(t, troupe.StateCanceled, e.State, e.Name)
		}
	})
}

// A codec that is told places is told those of items and results by element: none passes for
// another, and none for the list.
func TestPlacesOfItems(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &desk{}
		engine, handle := start(t, d.reading(), coded(sealed{troupe.JSON{}}))
		run := begin(t, handle, 2)
		_, err := run.Await(t.Context())
		require.NoError(t, err)
		payload, err := engine.Reader().Payload(t.Context(), "", run.ID(), "read[1]", 0)
		require.NoError(t, err)
		var value int
		for step, ok := range map[string]bool{"read[1]": true, "read[0]": false, "read": false} {
			place := troupe.PayloadPlace{Tenant: "default", Workflow: "reading", Step: step, Kind: troupe.PayloadOutput}
			err := sealed{troupe.JSON{}}.UnmarshalFor(place, payload.Data, &value)
			require.Equal(t, ok, err == nil, "%s: %v", step, err)
		}
		require.Equal(t, 11, value)
	})
}
