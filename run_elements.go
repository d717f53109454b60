package troupe

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// MapStatus says how many elements of a [Map] stand where. Completed includes those that an earlier
// run has completed, which this one continues.
type MapStatus struct {
	Items     int `json:"items"`     // of the list
	Completed int `json:"completed"` // elements
	Failed    int `json:"failed"`    // elements that ended otherwise: they failed, or were canceled
	Open      int `json:"open"`      // elements that have not ended
	Left      int `json:"left"`      // items whose elements have not been made
}

// ElementStatus is one element of a [Map]. Its output is not read: [Reader.Payload] reads that of
// the step of its name.
type ElementStatus struct {
	Item       int       `json:"item"` // the index of its item in the list
	Name       string    `json:"name"` // as a step, as in "files[17]"
	State      State     `json:"state"`
	Attempt    int       `json:"attempt"`              // attempts begun
	Losses     int       `json:"losses"`               // attempts lost with their pod
	OutputSize int       `json:"output_size"`          // bytes of its output; -1: there is none
	Class      string    `json:"class"`                // class of the last error; see [Class]
	Error      string    `json:"error"`                // its text; "": no attempt failed
	WakeAt     time.Time `json:"wake_at,omitzero"`     // when its timer fires; zero: none
	Pod        string    `json:"pod"`                  // name of the pod that executes it, or did last; "": none yet, or forgotten
	StartedAt  time.Time `json:"started_at,omitzero"`  // of the last attempt; zero: none
	FinishedAt time.Time `json:"finished_at,omitzero"` // zero: not yet
}

// ElementFilter selects elements of a [Map]. Zero fields select all.
type ElementFilter struct {
	States []State
	After  int // continue a listing: ElementPage.Next
	Limit  int // per page; 0, and at most: 1000
}

// ElementPage is one page of the elements of a [Map], in the order in which they were made: an
// element has no place in it before the window has reached its item.
type ElementPage struct {
	Map      MapStatus       `json:"map"` // zero: the map has not begun any
	Elements []ElementStatus `json:"elements"`
	Next     int             `json:"next,omitzero"` // the ElementFilter.After of the next page; 0: there are no more
}

// Elements reads a page of the elements of a step that was declared with [Map] or [MapSettled].
func (r *Run[O]) Elements(ctx context.Context, step string, filter ElementFilter) (ElementPage, error) {
	return r.engine.Elements(ctx, r.tenant, r.id, step, filter)
}

// Elements is [Run.Elements] for a run of a tenant ("": the default one). An unknown run gives
// [ErrRunNotFound], a step that its workflow does not have [ErrStepNotFound].
func (e *Engine) Elements(ctx context.Context, tenant string, run RunID, step string, filter ElementFilter) (ElementPage, error) {
	return e.Reader().Elements(ctx, tenant, run, step, filter)
}

// Elements reads a page of the elements of a step of a run that was declared with [Map] or
// [MapSettled], without their outputs. An unknown run gives [ErrRunNotFound], a step that its
// workflow does not have [ErrStepNotFound].
func (r *Reader) Elements(ctx context.Context, tenant string, run RunID, step string, filter ElementFilter) (ElementPage, error) {
	query, err := filter.query()
	if err != nil {
		return ElementPage{}, fmt.Errorf("read elements: %w", err)
	}
	page, err := readFrom(ctx, r, func(ctx context.Context, from reading) (persistence.ElementPage, error) {
		at, err := from.mapStep(ctx, tenant, run, step)
		if err != nil {
			return persistence.ElementPage{}, err
		}
		return from.store.Elements(ctx, from.tenant(tenant), workflow.TaskID{Run: run, Step: at}, query)
	})
	if err != nil {
		return ElementPage{}, fmt.Errorf("read elements of step %q of run %v: %w", step, run, err)
	}
	return elementPage(&page), nil
}

// query turns a filter into that of the store.
func (f *ElementFilter) query() (persistence.ElementQuery, error) {
	q := persistence.ElementQuery{After: int32(f.After), States: f.States, Limit: f.Limit}
	switch {
	case f.Limit < 0:
		return q, fmt.Errorf("Limit is %d: use 0 or more", f.Limit) //nolint:staticcheck // it begins with the name of the field
	case f.After < 0 || int(int32(f.After)) != f.After:
		return q, fmt.Errorf("After is %d: use the Next of a page", f.After)
	}
	for _, state := range f.States {
		if !slices.Contains(elementStates, state) {
			return q, fmt.Errorf("States: no element is %v: use queued, running, backoff, completed, failed or canceled", state) //nolint:staticcheck // the same
		}
	}
	return q, nil
}

// elementStates are the states in which elements can be.
var elementStates = []State{StateQueued, StateRunning, StateBackoff, StateCompleted, StateFailed, StateCanceled}

// mapStep returns the number of a step that is a map.
func (from *reading) mapStep(ctx context.Context, tenant string, run RunID, step string) (int32, error) {
	row, err := from.store.Run(ctx, from.tenant(tenant), run, persistence.WithoutOutputs)
	if err != nil {
		return 0, err
	}
	graph, err := from.store.Definition(ctx, row.Definition)
	switch {
	case err != nil:
		return 0, err
	case graph == nil:
		return 0, fmt.Errorf("%w: %v", ErrDefinitionNotFound, row.Definition)
	}
	at := slices.IndexFunc(graph.Nodes, func(n workflow.Node) bool { return n.Name == step })
	switch {
	case at < 0:
		return 0, ErrStepNotFound
	case graph.Nodes[at].Kind != workflow.Map:
		return 0, fmt.Errorf("it is no map: name a step that was declared with Map or MapSettled")
	}
	return int32(at), nil
}

func elementPage(page *persistence.ElementPage) ElementPage {
	out := ElementPage{Map: mapStatus(&page.Map), Elements: make([]ElementStatus, len(page.Rows)), Next: int(page.Next)}
	for i := range page.Rows {
		t := &page.Rows[i]
		out.Elements[i] = ElementStatus{
			Item: int(lifecycle.ElementOf(t.Name)), Name: t.Name, State: t.State, Attempt: int(t.Attempt), Losses: int(t.Lost),
			OutputSize: t.OutputSize, Class: t.Class, Error: t.Error, WakeAt: utc(t.WakeAt),
			Pod: t.PodName, StartedAt: utc(t.StartedAt), FinishedAt: utc(t.FinishedAt),
		}
	}
	return out
}

func mapStatus(m *persistence.MapRow) MapStatus {
	return MapStatus{
		Items: int(m.Items), Completed: int(m.Completed()), Failed: int(m.Failed), Open: int(m.Open), Left: int(m.Left),
	}
}
