package chaos

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/statemachine"
)

// F01: whichever pod is killed, a machine hears of the end of each activity once, and with the right
// result. What has been canceled does not happen.
func TestMachinesUnderKills(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F01", Name: "machines-under-kills", Fault: "3 pods under load with state machines, one of them SIGKILLed every 2 s and restarted",
		Must: "I1 I3 I4 I5 I16; each machine hears of the end of each of its activities once",
		Allowed: []figure{
			atLeast("kills", 20, "").inGoTest(3), atLeast("machines completed", 150, "").inGoTest(2),
			atLeast("activities completed", 3000, "").inGoTest(20), atLeast("activities failed for good, and handled", 200, "").inGoTest(1),
			atLeast("activities lost with a pod", 20, "").inGoTest(0), atLeast("activations lost with a pod", 5, "").inGoTest(0),
			none("activities lost"), none("results applied twice, by the states"), none("results applied twice, by what followed"),
			none("wrong results"), none("timers that were lost, or fired after a cancel"), none("idempotency keys of several activities"),
		},
	})
	y := newYard(r, brisk(), 8)
	y.each = func(told *podSpec) { told.Machines, told.Await = true, patience-20*time.Second }
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	r.count("kills", y.killOften(spell(8*time.Second, time.Minute)))
	y.quiet(patience)
	y.until("every run has ended", patience, func() bool { return y.number(openSQL) == 0 })
	y.judge()
	y.judgeMachines()
}

const machineName = "machine"

// lanesOf is how many activities a machine has at once, and how many one after the other, which the
// key of the run says.
func lanesOf(key string) (lanes, length int) {
	hash := hashOf(key)
	return 2 + int(hash%3), 4 + int(hash/3%6)
}

// place is that of an activity in a machine: the one at Position of a lane follows the one before.
type place struct {
	Lane     int    `json:"lane"`
	Position int    `json:"position"`
	Follows  string `json:"follows,omitempty"` // the id of the one before; "": it is the first
}

// errand is the input of an activity.
type errand struct {
	Key   string `json:"key"`
	Place place  `json:"place"`
}

func (e errand) text() string { return fmt.Sprintf("%s/%d/%d", e.Key, e.Place.Lane, e.Place.Position) }

// rejected tells whether the activity fails for good.
func (e errand) rejected() bool { return (e.Place.Lane+e.Place.Position)%8 == 3 }

// machineState is what a machine knows. It counts what it hears.
type machineState struct {
	Key     string           `json:"key"`
	Open    map[string]place `json:"open"` // activities whose end it has not heard of
	Applied map[string]int   `json:"applied"`
	Ticks   int              `json:"ticks"`
	Watch   string           `json:"watch"` // a timer that is canceled
	Done    int              `json:"done"`  // lanes
	Twice   int              `json:"twice"`
	Wrong   int              `json:"wrong"`
	Late    int              `json:"late"` // timers that fired after a cancel
}

type machineTurn = statemachine.Activation[machineState, string]

// machine returns a machine with lanes of activities, a timer for each lane that has to fire, and one
// that is canceled. It gives its input back.
func (p *podProcess) machine() troupe.Definition[string, string] {
	return statemachine.Define(machineName, func(m *statemachine.Builder[string, machineState, string]) {
		work := statemachine.Activity(m, "work", p.errand, troupe.Retry{Attempts: 4, First: 20 * time.Millisecond})
		tick, watch := m.Timer("tick"), m.Timer("watch")
		begin := func(a *machineTurn, at place) {
			a.State.Open[work.Start(a, errand{a.State.Key, at})] = at
		}
		m.OnStart(func(a *machineTurn, key string) {
			a.State = machineState{Key: key, Open: map[string]place{}, Applied: map[string]int{}}
			lanes, _ := lanesOf(key)
			for lane := range lanes {
				begin(a, place{Lane: lane})
				tick.Start(a, time.Duration(lane*50)*time.Millisecond)
			}
			a.State.Watch = watch.Start(a, 100*time.Millisecond)
		})
		ended := func(a *machineTurn, right func(errand) bool) {
			s := &a.State
			s.Applied[a.ID]++
			at, open := s.Open[a.ID]
			if !open {
				s.Twice++
				return
			}
			delete(s.Open, a.ID)
			if !right(errand{s.Key, at}) {
				s.Wrong++
			}
			if s.Watch != "" {
				a.Cancel(s.Watch)
				s.Watch = ""
			}
			if _, length := lanesOf(s.Key); at.Position+1 < length {
				begin(a, place{at.Lane, at.Position + 1, a.ID})
				return
			}
			s.Done++
			s.end(a)
		}
		statemachine.OnCompleted(m, work, func(a *machineTurn, got string) {
			ended(a, func(e errand) bool { return !e.rejected() && got == e.text() })
		})
		m.OnFailed(work, func(a *machineTurn, why *troupe.StepError) {
			ended(a, func(e errand) bool { return e.rejected() && why.Class == rejectedClass })
		})
		m.OnTimer(tick, func(a *machineTurn) {
			a.State.Ticks++
			a.State.end(a)
		})
		m.OnTimer(watch, func(a *machineTurn) {
			if a.State.Watch == "" {
				a.State.Late++
			}
			a.State.Watch = ""
		})
	})
}

// end completes the machine when nothing is left to wait for.
func (s *machineState) end(a *machineTurn) {
	lanes, _ := lanesOf(s.Key)
	switch {
	case s.Done < lanes || s.Ticks < lanes:
	case s.Twice+s.Wrong+s.Late > 0 || s.Ticks > lanes || len(s.Open) > 0:
		a.Complete(fmt.Sprintf("%+v", *s))
	default:
		a.Complete(s.Key)
	}
}

// errand is the function of an activity, which notes what it follows. One in eleven fails its first
// attempt.
func (p *podProcess) errand(ctx context.Context, in errand) (string, error) {
	task := troupe.Task(ctx)
	p.ledger.note("errand", task.Run.String(), fmt.Sprintf("%s %s %s", task.Step, in.Place.Follows, task.IdempotencyKey))
	if task.Attempt == 1 && (in.Place.Lane*7+in.Place.Position)%11 == 5 {
		return "", errFlaky
	}
	if in.rejected() {
		return "", troupe.Terminal(troupe.Class(rejectedClass, errRejected))
	}
	return p.effect(ctx, in.text())
}
