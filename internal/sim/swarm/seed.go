package swarm

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// Classes lists the classes of faults of a swarm.
func Classes() []sim.Class {
	return append(sim.Classes(),
		StepError, StepTerminal, StepPanic, StepSlow, StepHang, StepDeaf, StepLate, StepLarge, StepBadRow, StepBeats, EndUntold, ActivationCrash)
}

const (
	payloadLimit = 4 << 10
	// drainWithin bounds how long a healed cluster may take to end everything:
	// the longest lease, the leader's election, the longest step and backoff,
	// with room.
	drainWithin = 10 * time.Minute
)

// Options are those of one seed.
type Options struct {
	Seed    uint64
	Classes []sim.Class // nil: all
	Only    []string    // if not nil: only the faults of these names
	FIFO    bool        // the plainest order of messages
	Trace   func(sim.Line)
	Store   func(*sim.World) sim.Store // see sim.Options
}

// Report is what came of a seed.
type Report struct {
	Seed      uint64
	Violation *sim.Violation // nil: every promise held
	Faults    []sim.Fault
	Rates     string
	Setting   string // what was drawn about the cluster
	Hash      uint64 // of the history
	Steps     int
	Elapsed   time.Duration // virtual
	Saw       map[Sight]int
	Tasks     int
}

// seed is one run of a seed.
type seed struct {
	number  uint64
	world   *sim.World
	start   time.Time
	setting setting
	ctx     context.Context //nolint:containedctx // of calls to the model, which do not wait
	old     []*shape
	new     []*shape
	pods    []*slot
	client  *client
	oracle  *oracle
	names   map[workflow.RunID]string
	twin    bool                // another store must do what the model does
	effects map[string][]string // attempts by idempotency key
	report  *Report
	healed  bool

	healedAt  time.Time
	deadline  time.Time // for the end of everything
	executing []*execution
	spareFor  time.Duration // see spare
	sparedAt  time.Time
	deafUntil time.Time // until then functions that outlasted their context may hold slots
}

// Run runs one seed.
func (l *Lab) Run(options Options) *Report {
	if options.Classes == nil {
		options.Classes = Classes()
	}
	s := &seed{
		number: options.Seed, ctx: context.Background(), old: l.old, new: l.new,
		names: map[workflow.RunID]string{}, effects: map[string][]string{}, twin: options.Store != nil,
		report: &Report{Seed: options.Seed, Saw: map[Sight]int{}},
	}
	s.setting = draw(options.Seed, options.FIFO)
	s.oracle = newOracle(s)
	s.world = l.lab.New(sim.Options{
		Seed: options.Seed, Classes: options.Classes, Only: options.Only, Order: s.setting.order, Trace: options.Trace,
		Refuse: refuse, Store: options.Store, Committed: s.oracle.committed, Answered: s.oracle.answered,
		Recorded: s.oracle.acknowledged, Reporting: s.grow,
	})
	defer s.world.Close()
	s.start = s.world.Now()
	s.play()
	s.sightsOfFaults()
	r := s.report
	r.Violation, r.Faults, r.Rates, r.Setting = s.world.Violation(), s.world.Happened(), s.world.Rates(), s.setting.String()
	r.Hash, r.Steps, r.Elapsed = s.world.Hash(), s.world.Steps(), s.world.Elapsed()
	return r
}

// Lab runs seeds, one after the other.
type Lab struct {
	lab      *sim.Lab
	old, new []*shape
}

// NewLab returns a lab.
func NewLab() *Lab { return &Lab{lab: sim.NewLab(), old: shapes(1), new: shapes(2)} }

func refuse(payload []byte) error {
	if string(payload) == BadRow {
		return errBadRow
	}
	return nil
}

var errBadRow = fmt.Errorf("invalid byte sequence")

// play is the course of a seed: safety, then liveness.
func (s *seed) play() {
	defer s.caught()
	s.world.Model().Watch()
	pid, err := s.world.Spawn("client", func(m any) { s.client.hear(m) })
	if err != nil {
		s.world.Fail("setup", "client: %v", err)
		return
	}
	s.client = &client{seed: s, pid: pid, orders: map[string]*order{}}
	for i := range s.setting.pods {
		slot := &slot{seed: s, name: fmt.Sprintf("pod-%c", 'a'+i), shapes: s.old}
		s.pods = append(s.pods, slot)
		slot.start()
	}
	s.watchFeeds()
	for _, o := range s.load() {
		s.client.begin(o)
		s.report.Tasks += o.shape.tasks
	}
	s.client.await()
	s.world.After(s.setting.faults, s.heal)
	if s.setting.deploy {
		for i, slot := range s.pods {
			s.world.After(s.setting.faults/3+time.Duration(i)*2*time.Second, slot.deploy)
		}
	}
	s.deadline = s.start.Add(s.setting.faults + drainWithin)
	for s.world.Step() {
		if s.healed && s.drained() {
			s.idle()
			break
		}
		if s.world.Now().After(s.deadline) {
			s.world.Fail("I13", "%s has not ended %v after all faults did", s.unfinished(), drainWithin)
		}
	}
	if s.world.Violation() == nil {
		s.oracle.end()
	}
}

// heal ends the faults, those that block rows later; what is down starts.
func (s *seed) heal() {
	blocked := s.world.Blocked()
	s.healed, s.healedAt = true, s.world.Now()
	s.world.Heal()
	s.outlast(blocked)
	for _, slot := range s.pods {
		slot.restart(0)
	}
}

// drained reports whether every run that was triggered has ended, and every client
// that asked knows it.
func (s *seed) drained() bool {
	if s.oracle.open > 0 {
		return false
	}
	for _, o := range s.client.sorted {
		if !o.acked || o.cancel > 0 && !o.canceled || !o.told {
			return false
		}
	}
	return !slices.ContainsFunc(s.client.sent, func(x *sending) bool { return !x.acked && !x.over })
}

func (s *seed) unfinished() string {
	for _, o := range s.client.sorted {
		if !o.acked {
			return "the trigger of " + o.name
		}
	}
	for _, o := range s.client.sorted {
		name := o.name
		row, err := s.world.Model().Run(s.ctx, o.tenant, o.run)
		if err != nil || !row.State.Terminal() {
			text := fmt.Sprintf("%s (%s)", name, o.shape.graph.Name)
			tasks, _ := s.world.Model().Tasks(s.ctx, o.tenant, o.run)
			for _, t := range tasks {
				if !t.State.Terminal() && t.State != lifecycle.Pending {
					text += fmt.Sprintf(" step %d is %v", t.Step, t.State)
				}
			}
			return text
		}
	}
	for _, o := range s.client.sorted {
		switch {
		case o.cancel > 0 && !o.canceled:
			return "the cancel of " + o.name
		case !o.told:
			return "the wait for the end of " + o.name
		}
	}
	for _, x := range s.client.sent {
		if !x.acked && !x.over {
			return "the signal " + x.id + " of " + x.order.name
		}
	}
	return "a run that no client triggered"
}

// idle lets a minute without work pass: it may cost next to nothing.
func (s *seed) idle() {
	before, until := s.oracle.calls, s.world.Now().Add(time.Minute)
	for s.world.Now().Before(until) && s.world.Step() {
	}
	if calls := s.oracle.calls - before; calls > 60*idleCalls*len(s.pods) {
		s.world.Fail("I12", "%d store calls in a minute without work, of %d pods", calls, len(s.pods))
	}
}

// idleCalls is how many calls a second an idle pod may make: pulses, pings, and
// a sweep a second of both queues where there is no stream.
const idleCalls = 8

func (s *seed) saw(what Sight) { s.report.Saw[what]++ }

// nameOf is what the load calls a run.
func (s *seed) nameOf(run workflow.RunID) string {
	if name, ok := s.names[run]; ok {
		return name
	}
	return run.String()
}

// began is called at the start of every execution of a step function.
func (s *seed) began(p *sim.Pod, node *workflow.Node, about *actors.TaskInfo, in actors.Inputs) {
	if len(s.effects[about.IdempotencyKey]) > 0 {
		s.saw(SawExecutedAgain)
	}
	s.oracle.inputs(node, about, in, true)
	s.oracle.keyed(about)
	s.oracle.attempt(p, about)
	if about.Item >= 0 {
		s.oracle.itemOf(about, in)
		s.oracle.window(about)
	}
}

// effect is an effect outside of the database.
func (s *seed) effect(key, attempt string) { s.effects[key] = append(s.effects[key], attempt) }
