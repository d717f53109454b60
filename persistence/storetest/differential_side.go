package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// side is one of the two stores, and what only it knows: the numbers that it
// gave out and its clock.
type side struct {
	Harness
	name    string
	pods    []int64          // in the order of joining
	numbers [][]int32        // of the handlers, by graph
	known   []int32          // all of them, in the order in which they were seen
	steps   map[int32]string // by number of the handler
	epochs  []int64          // of leaders, the newest last
	now     time.Time        // when it last said so
	tx      Tx
}

func newSide(name string, h Harness) *side {
	return &side{Harness: h, name: name, steps: map[int32]string{}}
}

// pod returns the store's number for the n-th pod that joined.
func (s *side) pod(n int) int64 {
	if n < 0 || n >= len(s.pods) {
		return -1
	}
	return s.pods[n]
}

// ordinal is the inverse of pod, with 0 for none and the first as 1.
func (s *side) ordinal(pod int64) int64 { return int64(slices.Index(s.pods, pod)) + 1 }

// handlers returns the store's numbers for all steps of some graphs.
func (s *side) handlers(graphs []int) []int32 {
	var list []int32
	for _, g := range graphs {
		list = append(list, s.numbers[g]...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// present is the instant that stands for the store's present in requests that
// are written for both stores: in brings it to the store's own time.
var present = time.Unix(0, 0).UTC()

func (s *side) in(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return s.now.Add(at.Sub(present))
}

func (s *side) edges(list []persistence.EdgeResult) []persistence.EdgeResult {
	list = slices.Clone(list)
	for i := range list {
		list[i].WakeAt = s.in(list[i].WakeAt)
	}
	return list
}

// flat is how instants are compared: set or not.
func flat(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return present
}

// setNow keeps the instant of an answer as the present of the store, and makes it comparable.
func (s *side) setNow(now *time.Time, err error) {
	if err == nil {
		s.now = *now
	}
	*now = flat(*now)
}

// errorText is the text of an error. A text of the database's own is not compared, nor where it is
// part of why a child run or a map failed.
func errorText(class, text string) string {
	text, _, _ = strings.Cut(text, persistence.ErrBadRow.Error())
	if class == persistence.ClassBadRow {
		return ""
	}
	return text
}

// outcome is what a call returned: a value or the kind of an error.
type outcome[T any] struct {
	Value T
	Error string
}

// errGivenUp is returned by functions that give up their transaction.
var errGivenUp = errors.New("given up by the test")

func errorKind(err error) string {
	if err == nil {
		return ""
	}
	for _, kind := range []error{
		errGivenUp, persistence.ErrUnavailable, persistence.ErrConflict, persistence.ErrBadRow, persistence.ErrPodDead,
		persistence.ErrDeadLetterNotFound, persistence.ErrDeposed, persistence.ErrRunNotFound, persistence.ErrStepNotFound,
		persistence.ErrTenantsFull, persistence.ErrNoMachine,
	} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return "unknown error: " + err.Error()
}

// both makes a call on both stores and compares the outcomes. What the call
// returns is ready for comparison.
func both[T any](w *differ, what string, call func(s *side) (T, error)) outcome[T] {
	w.note("%s", what)
	var outcomes [2]outcome[T]
	for i, s := range []*side{w.model, w.product} {
		value, err := call(s)
		outcomes[i] = outcome[T]{value, errorKind(err)}
		if err != nil {
			outcomes[i].Value = *new(T)
		}
	}
	if diff := difference(outcomes[0], outcomes[1]); diff != "" {
		w.diverge("%s: answers differ (-model +product):\n%s", what, diff)
	}
	w.note("    = %+v", outcomes[0])
	return outcomes[0]
}

// difference is empty if two values are the same.
func difference(model, product any) string {
	if reflect.DeepEqual(model, product) {
		return ""
	}
	return cmp.Diff(model, product, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b *workflow.Graph) bool { return a == b }))
}

// compareStates compares everything that the stores hold and checks the
// invariants of the model, and so of both.
func (w *differ) compareStates() {
	var states [2]snapshot.Tables
	for i, s := range []*side{w.model, w.product} {
		tables, err := s.Snapshot(w.ctx)
		if err != nil {
			w.diverge("snapshot of the %s: %v", s.name, err)
		}
		states[i] = s.canonical(tables, w.graphs)
	}
	if diff := difference(states[0], states[1]); diff != "" {
		w.diverge("states differ (-model +product):\n%s", diff)
	}
	if wrong := snapshot.Check(states[0]); len(wrong) > 0 {
		w.diverge("invariants:\n%v", wrong)
	}
	w.sawMaps(&w.state, &states[0])
	w.sawMachines(&w.state, &states[0])
	w.state = states[0]
}

// canonical brings a state into the form that both stores must agree on.
func (s *side) canonical(t snapshot.Tables, graphs []*workflow.Graph) snapshot.Tables {
	t = t.WithoutTimes()
	for i := range t.Runs {
		r := &t.Runs[i]
		if at := slices.IndexFunc(graphs, func(g *workflow.Graph) bool { return g.Hash == r.Graph.Hash }); at >= 0 {
			r.Graph = graphs[at] // the same for both, so that it is compared by its hash
		}
		for j := range r.Tasks {
			task := &r.Tasks[j]
			task.Children, task.Output, task.Progress = orNil(task.Children), orNil(task.Output), orNil(task.Progress)
			task.Item = orNil(task.Item)
			task.Pod, task.WakeAt = s.ordinal(task.Pod), flat(task.WakeAt)
			task.Error = errorText(task.Class, task.Error)
		}
		for j := range r.Events {
			r.Events[j] = s.event(r.Events[j])
		}
	}
	t.Claims = slices.Clone(t.Claims)
	for i := range t.Claims {
		t.Claims[i].Pod = s.ordinal(t.Claims[i].Pod)
	}
	t.Pods = slices.Clone(t.Pods)
	for i := range t.Pods {
		t.Pods[i].ID = s.ordinal(t.Pods[i].ID)
	}
	t.Inbox = slices.Clone(t.Inbox)
	for i := range t.Inbox {
		t.Inbox[i].Payload = orNil(t.Inbox[i].Payload)
	}
	t.Dead = slices.Clone(t.Dead)
	for i := range t.Dead {
		t.Dead[i].Error = errorText(t.Dead[i].Class, t.Dead[i].Error)
	}
	t.Epoch = int64(slices.Index(s.epochs, t.Epoch))
	return t
}

// orNil makes no difference between nothing and nothing.
func orNil[E any](list []E) []E {
	if len(list) == 0 {
		return nil
	}
	return list
}

func (s *side) event(e lifecycle.Event) lifecycle.Event {
	e.At, e.WakeAt, e.Pod = flat(e.At), flat(e.WakeAt), s.ordinal(e.Pod)
	e.Text = errorText(e.Class, e.Text)
	return e
}

func (s *side) grants(list []persistence.Grant) []persistence.Grant {
	list = slices.Clone(list)
	for i := range list {
		g := &list[i]
		declared := g.Declared
		if declared == "" {
			declared = g.Step
		}
		if want := g.Workflow + "/" + declared; s.steps[g.Handler] != want {
			g.Step += fmt.Sprintf(" under the handler of %s", s.steps[g.Handler])
		}
		g.Handler, g.Machine = 0, s.machineGrant(g.Machine)
		g.BegunAt, g.QueuedAt, g.StartedAt = flat(g.BegunAt), flat(g.QueuedAt), flat(g.StartedAt)
		g.Parents, g.Failed = outcomes(g.Parents), outcomes(g.Failed)
	}
	return list
}

func outcomes(list []persistence.Outcome) []persistence.Outcome {
	list = slices.Clone(list)
	for i := range list {
		list[i].Error = errorText(list[i].Class, list[i].Error)
	}
	return list
}

func sameWake(wake persistence.Wake) persistence.Wake {
	wake.NextTimer = flat(wake.NextTimer)
	wake.Canceling = sortedRuns(wake.Canceling)
	wake.Failed = slices.Clone(wake.Failed)
	slices.SortFunc(wake.Failed, byTask)
	for i := range wake.Failed {
		wake.Failed[i].Error = errorText(wake.Failed[i].Class, wake.Failed[i].Error)
	}
	return wake
}

func byTask(a, b persistence.FailedTask) int {
	if c := slices.Compare(a.Task.Run[:], b.Task.Run[:]); c != 0 {
		return c
	}
	return int(a.Task.Step) - int(b.Task.Step)
}

func sortedRuns(list []workflow.RunID) []workflow.RunID {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b workflow.RunID) int { return slices.Compare(a[:], b[:]) })
	return list
}
