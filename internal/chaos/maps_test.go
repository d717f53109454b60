package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe"
)

// F01: whichever pod is killed, a map executes each of its items, has the results in their
// order, and never has more elements open than its window.
func TestMapsUnderKills(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F01", Name: "maps-under-kills", Fault: "3 pods under load with maps, one of them SIGKILLed every 2 s and restarted",
		Must: "I1 I3 I4 I5 I21; each map has the results of its items, in order",
		Allowed: []figure{
			atLeast("kills", 20, "").inGoTest(3), atLeast("maps completed", 150, "").inGoTest(2), atLeast("maps failed as they had to", 80, "").inGoTest(1),
			atLeast("elements completed", 10_000, "").inGoTest(100), atLeast("elements failed and tolerated", 400, "").inGoTest(3),
			atLeast("elements lost with a pod", 50, "").inGoTest(0), atLeast("looks at the open elements of maps", 200, "").inGoTest(5),
			atLeast("of these, found a full window", 100, "").inGoTest(2), atLeast("maps with as many executions at once as their window", 10, "").inGoTest(0),
			none("looks that found more open than the window"), none("looks at counters that disagree with the tables"),
			none("maps with more executions at once than their window"), none("maps with other elements than those of their items"),
			none("dead letters of elements"), none("idempotency keys of several elements"),
		},
	})
	y := newYard(r, brisk(), 8)
	y.each = func(told *podSpec) { told.Maps, told.Await = true, patience-20*time.Second }
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	stop := y.watchWindows()
	r.count("kills", y.killOften(spell(8*time.Second, time.Minute)))
	y.quiet(patience)
	y.until("every run has ended", patience, func() bool { return y.number(openSQL) == 0 })
	stop()
	y.judge()
	y.judgeMaps()
}

// mapShape is a workflow with a map.
type mapShape struct {
	name      string
	window    int
	settled   bool
	tolerated float64 // of a settled one
	failsOne  bool    // the item in the middle fails for good
	failsSome bool    // one item in eight does
	fails     bool    // and with it the run
}

var mapShapes = []mapShape{
	{name: "map-strict-5", window: 5},
	{name: "map-strict-20", window: 20},
	{name: "map-settled-5", window: 5, settled: true, tolerated: 0.3, failsSome: true},
	{name: "map-settled-20", window: 20, settled: true, tolerated: 1, failsSome: true},
	{name: "map-doomed", window: 8, failsOne: true, fails: true},
	{name: "map-broken", window: 12, settled: true, tolerated: 0.05, failsSome: true, fails: true},
}

// mapShapeOf returns the shape of a name; nil: it is another workflow.
func mapShapeOf(name string) *mapShape {
	if i := slices.IndexFunc(mapShapes, func(s mapShape) bool { return s.name == name }); i >= 0 {
		return &mapShapes[i]
	}
	return nil
}

// mapStep is the name of the map in each of these workflows.
const mapStep = "each"

// items is how many the list of a run has, which the key of the run says: some ten windows of
// them.
func (s *mapShape) items(key string) int {
	const least = 20
	return least + int(hashOf(key)%uint64(10*s.window))
}

// rejects tells whether the element of an item fails for good.
func (s *mapShape) rejects(key string, item int) bool {
	return s.failsSome && item%8 == 3 || s.failsOne && item == s.items(key)/2
}

// rejected is how many items a completed map has whose elements fail.
func (s *mapShape) rejected(key string) int {
	n := 0
	for item := range s.items(key) {
		if s.rejects(key, item) {
			n++
		}
	}
	return n
}

func itemText(key string, item int) string { return fmt.Sprintf("%s/%d", key, item) }

const rejectedClass = "rejected"

var errRejected = errors.New("the item is rejected")

// overLists returns the workflows with maps. Each gives its input back.
func (p *podProcess) overLists() []*troupe.Workflow[string, string] {
	workflows := make([]*troupe.Workflow[string, string], len(mapShapes))
	for i := range mapShapes {
		workflows[i] = p.overList(&mapShapes[i])
	}
	return workflows
}

func (p *podProcess) overList(s *mapShape) *troupe.Workflow[string, string] {
	return troupe.Define(s.name, func(b *troupe.Builder[string]) troupe.StepRef[string] {
		list := troupe.Step0(b, "list", func(ctx context.Context, in string) ([]string, error) {
			items := make([]string, s.items(in))
			for i := range items {
				items[i] = itemText(in, i)
			}
			_, err := p.effect(ctx, in)
			return items, err
		})
		element, retry := p.element(s), troupe.Retry{Attempts: 4, First: 20 * time.Millisecond}
		if !s.settled {
			each := troupe.Map(b, mapStep, list, element, troupe.MaxConcurrency(s.window), retry)
			return troupe.Step1(b, "end", func(ctx context.Context, in string, got []string) (string, error) {
				return p.end(ctx, s, in, len(got), func(i int) (string, error) { return got[i], nil })
			}, each)
		}
		each := troupe.MapSettled(b, mapStep, list, element, troupe.MaxConcurrency(s.window), retry, troupe.ToleratedFailures(s.tolerated))
		return troupe.Step1(b, "end", func(ctx context.Context, in string, got []troupe.ElementOutcome[string]) (string, error) {
			return p.end(ctx, s, in, len(got), func(i int) (string, error) { return got[i].Value() })
		}, each)
	})
}

// element is the function of an element, which notes when it begins and ends. One in eleven fails
// its first attempt.
func (p *podProcess) element(s *mapShape) func(context.Context, string, string) (string, error) {
	return func(ctx context.Context, in, item string) (string, error) {
		task := troupe.Task(ctx)
		p.stamp("enter", task, s)
		defer p.stamp("leave", task, s)
		p.ledger.note("element", task.Run.String()+"/"+task.Step, task.IdempotencyKey)
		switch {
		case item != itemText(in, task.Item):
			return "", troupe.Terminal(fmt.Errorf("%s has the item %q", task.Step, item))
		case task.Attempt == 1 && task.Item%11 == 5:
			return "", errFlaky
		case s.rejects(in, task.Item):
			return "", troupe.Terminal(troupe.Class(rejectedClass, errRejected))
		}
		return p.effect(ctx, item)
	}
}

// stamp notes an instant of an execution, with the window of its map. All pods have the clock of
// one machine.
func (p *podProcess) stamp(what string, task troupe.TaskInfo, s *mapShape) {
	p.ledger.note(what, task.Run.String(), fmt.Sprintf("%s %d %d", task.Step, s.window, time.Now().UnixNano()))
}

// end is the step behind a map. It checks every result.
func (p *podProcess) end(ctx context.Context, s *mapShape, in string, n int, result func(int) (string, error)) (string, error) {
	if want := s.items(in); n != want {
		return "", troupe.Terminal(fmt.Errorf("there are %d results: want %d", n, want))
	}
	for i := range n {
		got, err := result(i)
		failed := new(troupe.StepError)
		switch {
		case s.rejects(in, i):
			if !errors.As(err, &failed) || failed.Class != rejectedClass {
				return "", troupe.Terminal(fmt.Errorf("the result of item %d is %q, %w: want it rejected", i, got, cmp.Or(err, errors.New("no error"))))
			}
		case err != nil || got != itemText(in, i):
			return "", troupe.Terminal(fmt.Errorf("the result of item %d is %q, %w", i, got, cmp.Or(err, errors.New("no error"))))
		}
	}
	return p.effect(ctx, in)
}

// spread triggers a run with a map and waits for its end.
func (p *podProcess) spread(ctx context.Context, n int64, key string) {
	s := &mapShapes[n%int64(len(mapShapes))]
	run := p.store(ctx, s.name, key, troupe.Tenant("tenant-0"))
	switch {
	case run == nil:
	case s.fails:
		p.awaitFailure(ctx, run)
	default:
		p.await(ctx, run, key)
	}
}

// awaitFailure waits for the end of a run whose map fails.
func (p *podProcess) awaitFailure(ctx context.Context, run *troupe.Run[string]) {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(p.spec.Await, awaitMax), errStuck)
	defer cancel()
	got, err := run.Await(ctx)
	switch id := run.ID().String(); {
	case errors.Is(err, troupe.ErrElementFailed):
		p.ledger.note("ended", id, "failed")
	case errors.Is(err, errStuck):
		p.ledger.note("stuck", id, "")
	case err == nil, errors.Is(err, troupe.ErrRunFailed), errors.Is(err, troupe.ErrRunCanceled), errors.Is(err, troupe.ErrNoOutput):
		p.ledger.note("wrong", id, strings.TrimSpace(fmt.Sprintf("%s %v", got, err)))
	}
}
