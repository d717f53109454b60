package simtest

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// stepTwice is the class of the fault that the simulation of steps adds.
const stepTwice = sim.Class(StepTwice)

// execution is one execution of a step function.
type execution struct {
	sim      *Sim
	pod      *sim.Pod
	about    actors.TaskInfo
	step     string // as the workflow declares it: of an element its map
	began    time.Duration
	ended    time.Duration
	end      string      // how; "": it has not ended
	effects  []string    // on services
	orphaned bool        // its pod had ended before the simulation did
	left     atomic.Bool // its goroutine has left the function
}

type executionKey struct{}

func executionOf(ctx context.Context) *execution {
	x, _ := ctx.Value(executionKey{}).(*execution)
	return x
}

// execute implements sim.Execute: a step function runs on a goroutine of the
// bubble.
func (s *Sim) execute(p *sim.Pod, to *actors.PID, _ workflow.TaskID, run func(deliver func(any))) {
	s.attempts.Add(1)
	go func() {
		defer s.attempts.Add(-1)
		run(func(message any) { p.Arrive(to, message) })
	}()
}

// functions makes the step functions of a pod tell when they begin and end.
func (s *Sim) functions(p *sim.Pod, own map[int32]actors.StepFunction) map[int32]actors.StepFunction {
	functions := make(map[int32]actors.StepFunction, len(own))
	for number, f := range own {
		call := f.Call
		stub, stubbed := s.stubs[f.Workflow+"/"+f.Step]
		if stubbed {
			call = stub(f)
		}
		if f.Step == machineStep { // another step may be called so: it has no activations
			s.machines[f.Fingerprint] = own[number]
		}
		f.Call = func(ctx context.Context, in actors.Inputs) (actors.Output, error) {
			about := actors.AttemptFrom(ctx).Info()
			x := &execution{sim: s, pod: p, about: about, step: f.Step}
			defer x.left.Store(true)
			x.visit("begins", x.begins)
			if f.Options.InTx && !stubbed {
				x.visit("lacks", x.lacksStub)
			}
			within := context.WithValue(ctx, executionKey{}, x)
			var out actors.Output
			var err error
			if in.Machine != nil {
				out, err = s.activate(within, call, in)
			} else {
				out, err = call(within, in)
			}
			x.visit("ends", func(done func()) { x.ends(err, done) })
			return out, err
		}
		functions[number] = f
	}
	return functions
}

// visit runs f as an event of the world and waits until done is called. A pod
// that is paused has no events. If it crashes meanwhile visit never returns: the
// goroutine ends.
func (x *execution) visit(name string, f func(done func())) {
	answered := make(chan struct{})
	x.sim.world.Enter("step "+x.about.AttemptID+" "+name, func() {
		x.pod.After(0, func() {
			f(func() { x.pod.After(0, func() { close(answered) }) })
		})
	})
	select {
	case <-answered:
	case <-x.pod.Pod.Done():
		runtime.Goexit()
	case <-x.sim.over:
		runtime.Goexit()
	}
}

// gone reports whether the pod has ended.
func (x *execution) gone() bool {
	select {
	case <-x.pod.Pod.Done():
		return true
	default:
		return false
	}
}

func (x *execution) begins(done func()) {
	s := x.sim
	x.began = s.world.Elapsed()
	s.log = append(s.log, x)
	delete(s.commits, x.about.AttemptID) // its transaction was rolled back if this is not the first
	s.world.Note("step", x.pod.Name, x.name()+" begins, "+x.attempt())
	done()
}

// lacksStub ends the simulation: there is no transaction for the step.
func (x *execution) lacksStub(func()) {
	x.sim.world.Fail("the simulation has what the steps need",
		"step %q of workflow %q is declared with troupe.InTx, and there is no PostgreSQL here: give it a simtest.Stub, and simtest.OnCommit for what it writes",
		x.about.Step, x.about.Workflow)
}

// ends is where a step that has succeeded may be executed again: its pod
// crashes before the completion is recorded.
func (x *execution) ends(err error, done func()) {
	s := x.sim
	x.ended, x.end = s.world.Elapsed(), "succeeded"
	if err != nil {
		x.end = "failed: " + err.Error()
		s.world.Note("step", x.pod.Name, x.name()+" "+x.end)
		done()
		return
	}
	s.world.Note("step", x.pod.Name, x.name()+" succeeded")
	s.successes++
	if s.successes == s.setting.Twice {
		s.crashed = fmt.Sprintf("%12s  %s crashes right after %s has succeeded: it is not recorded, so it is executed again",
			s.world.Elapsed().Round(time.Microsecond), x.pod.Name, x.name())
		x.pod.Crash()
		return
	}
	if s.world.Visit(stepTwice, x.about.Workflow+"/"+x.step) {
		x.pod.Crash()
		return
	}
	done()
}

// name is the step and its run.
func (x *execution) name() string {
	return fmt.Sprintf("step %q of %s", x.about.Step, x.sim.nameOf(x.about.Run))
}

func (x *execution) attempt() string { return fmt.Sprintf("attempt %d", x.about.Attempt) }

// recordedInTx carries out what a step with InTx has left to its commit.
func (s *Sim) recordedInTx(t persistence.Transition) {
	run, _ := s.world.Model().RunSnapshot(t.Task.Run)
	attempt := fmt.Sprintf("%v/%s/%d", t.Task.Run, stepName(&run, t.Task.Step), t.Epoch)
	for _, effect := range s.commits[attempt] {
		effect()
	}
	delete(s.commits, attempt)
}

// OnCommit leaves an effect to the commit of a step with troupe.InTx: a [Stub]
// of one does with it what the real one does with its transaction. The effect
// happens if and only if the step's completion is committed; of an attempt that
// is not, nothing is left. effect must not wait.
func OnCommit(ctx context.Context, effect func()) {
	x := executionOf(ctx)
	if x == nil {
		panic("simtest: OnCommit was called outside a step function of a simulation")
	}
	x.visit("on-commit", func(done func()) {
		commits := x.sim.commits
		commits[x.about.AttemptID] = append(commits[x.about.AttemptID], effect)
		done()
	})
}
