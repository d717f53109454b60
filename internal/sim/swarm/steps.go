package swarm

import (
	"context"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// What step functions do wrong.
const (
	StepError    sim.Class = "step-error"    // an ordinary failure
	StepTerminal sim.Class = "step-terminal" // one that is not retried
	StepPanic    sim.Class = "step-panic"
	StepSlow     sim.Class = "step-slow"    // seconds instead of milliseconds
	StepHang     sim.Class = "step-hang"    // longer than its timeout, but it ends with its context
	StepDeaf     sim.Class = "step-deaf"    // ignores its context, for most of a minute
	StepLate     sim.Class = "step-late"    // returns its output although its context has ended
	StepLarge    sim.Class = "step-large"   // an output over the limit
	StepBadRow   sim.Class = "step-bad-row" // an output that the database refuses
	StepBeats    sim.Class = "step-beats"   // reports progress
)

// BadRow marks payloads that the database refuses.
const BadRow = "\x00refused"

var errPlanned = errors.New("a failure of the simulation")

// number enters the functions of the shapes under the numbers of their
// handlers.
func (s *seed) functions(p *sim.Pod, deployed []*shape, numbers [][]int32) map[int32]actors.StepFunction {
	functions := map[int32]actors.StepFunction{}
	for i, shape := range deployed {
		for j, number := range numbers[i] {
			node := shape.graph.OnFailure
			switch {
			case j < len(shape.graph.Nodes):
				node = &shape.graph.Nodes[j]
			case shape.rules != nil: // the machine at an older version of its state
				older := shape.graph.Nodes[0]
				older.Fingerprint = shape.graph.Older[j-len(shape.graph.Nodes)]
				node = &older
			}
			switch node.Kind {
			case workflow.Machine:
				functions[number] = actors.StepFunction{
					Workflow: shape.graph.Name, Step: node.Name, Fingerprint: node.Fingerprint,
					Options: workflow.Options{Retry: shape.retry[node.Name], AttemptTimeout: 12 * time.Second}, Call: s.activate(p, shape),
				}
				continue
			case workflow.Wait:
				functions[number] = actors.StepFunction{
					Workflow: shape.graph.Name, Step: node.Name, Fingerprint: node.Fingerprint, Queue: node.Queue, Replay: s.replay(p, shape, node),
				}
				continue
			case workflow.Sleep, workflow.SleepUntil:
				continue
			case workflow.Func, workflow.ChildRun, workflow.Map:
			}
			functions[number] = actors.StepFunction{
				Workflow: shape.graph.Name, Step: node.Name, Fingerprint: node.Fingerprint, Queue: node.Queue,
				Options: workflow.Options{
					Retry: shape.retry[node.Name], InTx: shape.inTx[node.Name], AttemptTimeout: 12 * time.Second,
				},
				Call: s.body(p, deployed, shape, node), Replay: s.replay(p, shape, node), Map: s.mapFunction(p, shape, node),
			}
		}
	}
	return functions
}

// replay completes a step with an output that comes from elsewhere: the payload of a signal, the
// output of a child run, or that of an earlier run.
func (s *seed) replay(p *sim.Pod, shape *shape, node *workflow.Node) func(context.Context, []byte) (actors.Output, error) {
	return func(ctx context.Context, payload []byte) (actors.Output, error) {
		about := actors.AttemptFrom(ctx).Info()
		s.oracle.attempt(p, &about)
		return actors.Output{Payload: payload, Edges: s.decide(shape, node, payload)}, nil
	}
}

// body is a step function: it takes a while, fails as the seed says, and
// returns what depends on its inputs and nothing else, or begins a child run with it.
func (s *seed) body(p *sim.Pod, deployed []*shape, shape *shape, node *workflow.Node) func(context.Context, actors.Inputs) (actors.Output, error) {
	return func(ctx context.Context, in actors.Inputs) (actors.Output, error) {
		about := actors.AttemptFrom(ctx).Info()
		s.began(p, node, &about, in)
		defer s.execute(ctx, p, &about)()
		place := s.nameOf(about.Run) + "/" + about.Step
		if s.world.Visit(StepBeats, place) {
			_ = actors.AttemptFrom(ctx).Heartbeat([]byte(`"half"`))
		}
		if err := s.dally(ctx, p, place); err != nil {
			return actors.Output{}, err
		}
		begins := node.Kind == workflow.ChildRun
		payload := sign(digest(about.Step, in), about.AttemptID)
		if begins {
			payload = in.Item // of what a machine has started
			if len(in.Parents) > 0 {
				payload = in.Parents[0].Output
			}
		} else {
			s.effect(about.IdempotencyKey, about.AttemptID)
		}
		switch {
		case s.fails(shape, &about):
			return actors.Output{}, errPlanned
		case s.world.Visit(StepPanic, place):
			panic(errPlanned)
		case s.world.Visit(StepError, place):
			return actors.Output{}, errPlanned
		case s.world.Visit(StepTerminal, place):
			return actors.Output{}, actors.Terminal(errPlanned)
		case s.world.Visit(StepLarge, place):
			payload = make([]byte, payloadLimit+1)
		case s.world.Visit(StepBadRow, place):
			payload = []byte(BadRow)
		}
		s.oracle.returned(ctx, p, &about)
		if begins {
			return actors.Output{Child: childOf(deployed, node, payload)}, nil
		}
		return actors.Output{Payload: payload, Edges: s.decide(shape, node, payload)}, nil
	}
}

// dally spends the time of a step. It returns why the context ended, if the
// function cares.
func (s *seed) dally(ctx context.Context, p *sim.Pod, place string) error {
	takes := s.takes(place)
	if d, ok := s.world.Happens(StepSlow, place); ok {
		takes = d.Between(100*time.Millisecond, 10*time.Second)
	}
	if d, ok := s.world.Happens(StepHang, place); ok {
		takes = d.Between(10*time.Second, 5*time.Minute)
	}
	deaf, isDeaf := s.world.Happens(StepDeaf, place)
	late := s.world.Visit(StepLate, place)
	if isDeaf {
		takes, late = deaf.Between(5*time.Second, 50*time.Second), true
	}
	err := p.Sleep(ctx, takes)
	switch {
	case err == nil:
		return nil
	case isDeaf:
		s.saw(SawDeaf)
		s.deafUntil = s.world.Now().Add(takes + time.Minute)
		_ = p.Sleep(context.Background(), takes)
	case late:
		s.saw(SawLateOutput)
		_ = p.Sleep(context.Background(), time.Second)
	default:
		return err
	}
	return nil
}

// takes is how long a step takes when nothing is wrong.
func (s *seed) takes(place string) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(place))
	return time.Millisecond + time.Duration((h.Sum64()^s.number)%200)*time.Millisecond
}

// digest is an output: it tells which inputs led to it.
func digest(step string, in actors.Inputs) []byte {
	h := fnv.New128a()
	h.Write(in.Input)
	h.Write([]byte(step))
	h.Write(in.Item)
	for _, outcomes := range [][]persistence.Outcome{in.Parents, in.Failed} {
		for i := range outcomes {
			h.Write([]byte{byte(outcomes[i].State)})
			h.Write(outcomes[i].Output)
		}
	}
	return []byte(`"` + hex.EncodeToString(h.Sum(nil)) + `"`)
}

// decide evaluates the conditions that hang on an output: a coin, tossed by
// the output itself.
func (s *seed) decide(shape *shape, node *workflow.Node, payload []byte) []persistence.EdgeResult {
	heads := len(payload) > 1 && payload[1]%2 == 0
	not := func(child string) persistence.EdgeResult {
		return persistence.EdgeResult{Child: child, Flags: lifecycle.FlagSkip}
	}
	switch shape.graph.Name + "/" + node.Name {
	case "orders/validate":
		if heads {
			return []persistence.EdgeResult{not("refuse")}
		}
		return []persistence.EdgeResult{not("wait")}
	case "skipping/choose":
		if heads {
			return []persistence.EdgeResult{not("maybe")}
		}
	case "relay/second":
		if heads {
			return []persistence.EdgeResult{not("maybe")}
		}
	case "until/tell":
		return []persistence.EdgeResult{{Child: "until", WakeAt: s.world.Now().Add(5 * time.Second)}}
	}
	return nil
}
