package simtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/workflow"
)

// Sim is one simulated cluster. Its methods are for the goroutine of the
// test's function, unless they say otherwise. It takes the place of t there:
// require.NoError(s, err) fails this simulation, and the report names its seed.
type Sim struct {
	options Options
	setting setting
	t       testing.TB // of New; nil: the simulation is one of Run's
	world   *sim.World
	pace    *bubble
	random  *rand.Rand // of the world's goroutine
	inputs  *rand.Rand // of the test's
	context context.Context
	end     context.CancelCauseFunc
	over    chan struct{} // closed when the world has ended

	begun     atomic.Bool     // the pods have started
	declaring *[]registration // what Deploy's function registers; nil: it is not under way
	version   []registration
	slots     []*slot
	stubs     map[string]stub // by workflow/step
	unused    map[string]bool // stubs that no step was found for
	machines  map[workflow.Hash]actors.StepFunction
	starts    int
	sent      int // signals

	// For the world's goroutine.
	open      map[workflow.RunID]bool     // runs that have not ended
	awaiting  map[workflow.RunID][]func() // called when they end
	names     map[workflow.RunID]string   // what the report calls them
	idlers    []func()                    // called when nothing is left to do
	eventual  []*eventual                 // conditions that must come true
	committed bool                        // since the last look
	changedAt time.Time                   // when a run last changed
	progress  time.Time                   // the same, but for the time that the world was frozen
	healedAt  time.Time                   // zero: faults may happen
	quiet     bool                        // nothing is to be done until wake
	wake      time.Time                   // zero: never
	judged    bool                        // quiet and wake are about how it is now
	finishing bool                        // the test's function has returned
	log       []*execution                // of step functions, in order
	commits   map[string][]func()         // by attempt: effects of steps with InTx, until they are committed
	points    int                         // at which a pod may crash, so far
	successes int                         // of step functions
	crashed   string                      // where the plan crashed a pod
	elapsed   time.Duration               // until the end

	attempts atomic.Int64 // goroutines of step functions
	calls    atomic.Int64 // triggers and cancels under way

	mu     sync.Mutex
	began  map[workflow.RunID]began // machines
	always []invariant
	saw    map[string]bool // by the name of a Sometimes
	logs   []string
}

// newSim makes a cluster that has not begun. It must be called in a bubble.
func newSim(lab *sim.Lab, options Options, set setting) *Sim {
	s := &Sim{
		options: options.withDefaults(), setting: set, pace: newBubble(), over: make(chan struct{}),
		random: rand.New(rand.NewPCG(set.Seed, 3)), inputs: rand.New(rand.NewPCG(set.Seed, 4)),
		stubs: map[string]stub{}, machines: map[workflow.Hash]actors.StepFunction{}, began: map[workflow.RunID]began{}, unused: map[string]bool{}, saw: map[string]bool{},
		open: map[workflow.RunID]bool{}, awaiting: map[workflow.RunID][]func(){}, names: map[workflow.RunID]string{},
		commits: map[string][]func(){},
	}
	s.context, s.end = context.WithCancelCause(context.Background())
	order := sim.Order(s.random.IntN(4))
	if set.Plain {
		order = sim.FIFO
	}
	s.world = lab.New(sim.Options{
		Seed: set.Seed, Classes: s.options.Faults.classes(), Only: set.Only, Order: order, Pace: s.pace, Usual: usual(), Trace: set.trace,
		Execute: s.execute, Committed: func(string) { s.committed = true }, InTxTries: 3, RecordedInTx: s.recordedInTx,
	})
	s.world.Model().Watch()
	s.progress, s.changedAt = s.world.Now(), s.world.Now()
	return s
}

// Seed is what everything that happens follows from.
func (s *Sim) Seed() uint64 { return s.setting.Seed }

// Rand is a source of random numbers that follows from the seed: for inputs.
func (s *Sim) Rand() *rand.Rand { return s.inputs }

// Context ends with the simulation.
func (s *Sim) Context() context.Context { return s.context }

// Pods lists the names of the pods.
func (s *Sim) Pods() []string {
	names := make([]string, s.options.Pods)
	for i := range names {
		names[i] = podName(i)
	}
	return names
}

func podName(i int) string { return "pod-" + string(rune('a'+i%26)) + strings.Repeat("'", i/26) }

// Advance lets virtual time pass; so does time.Sleep.
func (s *Sim) Advance(d time.Duration) {
	s.begin()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.over:
		s.leave()
	}
}

// RunUntilIdle returns once nothing is left to be done now: every run has
// ended, sleeps, or waits for its next attempt.
func (s *Sim) RunUntilIdle() {
	s.begin()
	s.visit("idle", func(done func()) { s.idlers = append(s.idlers, done) })
}

// Crash kills a pod, as a power failure does. It starts again later.
func (s *Sim) Crash(pod string) {
	slot := s.slot(pod)
	s.visit("crash", func(done func()) {
		if slot.pod != nil {
			slot.pod.Crash()
		}
		done()
	})
}

// Pause freezes a pod: nothing of its engine runs for d, and its lease may end.
// Step functions keep running, because Go cannot freeze a goroutine; their reports
// wait.
func (s *Sim) Pause(pod string, d time.Duration) {
	slot := s.slot(pod)
	s.visit("pause", func(done func()) {
		if slot.pod != nil {
			slot.pod.Pause(d)
		}
		done()
	})
}

// Stop stops a pod in good order, as a deployment does. It starts again later.
func (s *Sim) Stop(pod string) {
	slot := s.slot(pod)
	s.visit("stop", func(done func()) {
		slot.stop()
		done()
	})
}

// EndFaults ends all faults of this simulation: none happens any more.
func (s *Sim) EndFaults() {
	s.begin()
	s.visit("end-faults", func(done func()) {
		s.heal()
		done()
	})
}

func (s *Sim) slot(pod string) *slot {
	s.begin()
	i := slices.IndexFunc(s.slots, func(c *slot) bool { return c.name == pod })
	if i < 0 {
		s.Fatalf("there is no pod %q: Pods lists them", pod)
	}
	return s.slots[i]
}

// visit runs f as an event of the world and waits until done is called.
func (s *Sim) visit(name string, f func(done func())) {
	answered := make(chan struct{})
	s.world.Enter("test "+name, func() {
		s.thaw()
		f(func() { s.world.After(0, func() { close(answered) }) })
	})
	select {
	case <-answered:
	case <-s.over:
		s.leave()
	}
}

// leave ends the goroutine of the test's function: the simulation is over.
func (s *Sim) leave() {
	if s.t != nil {
		s.t.FailNow()
	}
	runtime.Goexit()
}

// Errorf fails the simulation, which continues until the function returns. It and
// the methods below may be called on any goroutine of the simulation.
func (s *Sim) Errorf(format string, args ...any) {
	if s.t != nil {
		s.t.Errorf(format, args...)
		return
	}
	s.broken(caller(), plain(fmt.Sprintf(format, args...)))
}

// FailNow fails the simulation and ends the goroutine that calls it.
func (s *Sim) FailNow() {
	if s.t != nil {
		s.t.FailNow()
	}
	s.broken(caller(), "FailNow was called")
	runtime.Goexit()
}

// Fatalf is Errorf and FailNow.
func (s *Sim) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	s.FailNow()
}

// Logf adds a line to what is printed if the simulation fails.
func (s *Sim) Logf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs = append(s.logs, fmt.Sprintf("%v  %s", s.world.Elapsed(), fmt.Sprintf(format, args...)))
}

// Helper is there for assertion libraries.
func (s *Sim) Helper() {}

// broken ends the simulation: a promise is broken. The first one counts.
func (s *Sim) broken(promise, text string) {
	s.world.Enter("broken", func() { s.world.Fail(promise, "%s", text) })
}

// plain is the text of a check without what an assertion library says about
// the place: the report names it.
func plain(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "Error:") })
	if i > 0 && strings.HasPrefix(lines[0], "Error Trace:") {
		lines = lines[i:]
	}
	for i := range lines {
		lines[i] = strings.TrimRight(strings.TrimPrefix(strings.TrimSpace(lines[i]), "Error:"), " \t")
		lines[i] = strings.TrimLeft(lines[i], " \t")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// caller names the line of a test that a check failed in.
func caller() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.File, "_test.go") {
			return fmt.Sprintf("the check at %s:%d", f.File[strings.LastIndexByte(f.File, '/')+1:], f.Line)
		}
		if !more {
			return "a check of the test"
		}
	}
}

// config is that of a pod.
func (s *Sim) config(name string) troupe.Config {
	c := s.options.Config
	c.PodName, c.System = name, nil
	return c
}
