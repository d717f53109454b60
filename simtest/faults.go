package simtest

import (
	"slices"

	"github.com/troupe-dev/troupe/internal/sim"
)

// Fault is a kind of fault.
type Fault string

// The faults.
const (
	PodCrash      = Fault(sim.PodCrash)      // the process is killed, and starts again later
	PodPause      = Fault(sim.PodPause)      // the process stands still, for up to several leases
	PodSlow       = Fault(sim.PodSlow)       // the process is slow for a while
	PodStop       = Fault(sim.PodStop)       // the process is stopped in good order, as by a deployment
	ClockSkew     = Fault(sim.ClockSkew)     // the clock of a pod is wrong
	ClockDrift    = Fault(sim.ClockDrift)    // and goes fast or slow
	StoreLost     = Fault(sim.StoreLost)     // the connection breaks before the commit
	StoreUnsure   = Fault(sim.StoreAnswer)   // and here after it: the pod cannot know
	StoreLate     = Fault(sim.StoreLate)     // the pod has given up when the commit happens
	StoreConflict = Fault(sim.StoreConflict) // serialization failure, deadlock, lock timeout
	StoreSlow     = Fault(sim.StoreSlow)     // hundreds of times as slow
	StoreFrozen   = Fault(sim.StoreFrozen)   // no answer until the timeout
	StoreDown     = Fault(sim.StoreDown)     // no connection to the database for a while
	StorePool     = Fault(sim.StorePool)     // the connections of a pod are all in use for a while
	StoreAway     = Fault(sim.StoreAway)     // the proxy that a pod's connections go through is gone for a while; its lease goes past it
	StoreHeld     = Fault(sim.StoreHeld)     // another session holds a lock that some completions need, for a while
	WakeLost      = Fault(sim.WakeLost)      // a pod is not told that there is work
	WakeDoubled   = Fault(sim.WakeDoubled)   // or told twice
	WakeLate      = Fault(sim.WakeLate)      // or seconds later
	StreamLost    = Fault(sim.StreamLost)    // the replication stream breaks
	ListenerLost  = Fault(sim.ListenerLost)  // the connection that listens breaks
	RelaySilent   = Fault(sim.RelaySilent)   // no notification arrives for a while
	LeaderLost    = Fault(sim.TermLost)      // the leader's session breaks, and it does not know

	ServiceFails  Fault = "service-fails"  // a call of a Service fails, without effect
	ServiceUnsure Fault = "service-unsure" // it fails for the caller, and has taken effect
	SignalTwice   Fault = "signal-twice"   // a signal is sent again after it was stored, with the same id
	SignalLate    Fault = "signal-late"    // it is sent up to ten minutes later
	StepTwice     Fault = "step-twice"     // the pod crashes right after a step has succeeded: it is executed again
)

// Faults says which faults may happen. The zero value is Swarm.
type Faults struct {
	chosen bool
	list   []Fault
}

// Swarm is all faults: each seed draws which ones it has, and how often.
func Swarm() Faults { return Faults{} }

// None is no faults.
func None() Faults { return Faults{chosen: true} }

// Only is these faults. Seeds draw how often they have them.
func Only(faults ...Fault) Faults { return Faults{chosen: true, list: slices.Clone(faults)} }

// Except is all faults but these.
func Except(faults ...Fault) Faults {
	return Faults{chosen: true, list: slices.DeleteFunc(AllFaults(), func(f Fault) bool { return slices.Contains(faults, f) })}
}

// AllFaults lists the faults.
func AllFaults() []Fault {
	return []Fault{
		PodCrash, PodPause, PodSlow, PodStop, ClockSkew, ClockDrift, StoreLost, StoreUnsure, StoreLate, StoreConflict,
		StoreSlow, StoreFrozen, StoreDown, StorePool, StoreAway, StoreHeld, WakeLost, WakeDoubled, WakeLate, StreamLost, ListenerLost,
		RelaySilent, LeaderLost, ServiceFails, ServiceUnsure, SignalTwice, SignalLate, StepTwice,
	}
}

// usual is how often the faults of steps, services and signals happen each time that they
// could, in the middle of what is drawn: there are few occasions.
func usual() map[sim.Class]float64 {
	return map[sim.Class]float64{
		sim.Class(StepTwice): 0.2, sim.Class(ServiceFails): 0.1, sim.Class(ServiceUnsure): 0.1,
		sim.Class(SignalTwice): 0.2, sim.Class(SignalLate): 0.2,
	}
}

// classes returns what the world may draw from.
func (f Faults) classes() []sim.Class {
	list := f.list
	if !f.chosen {
		list = AllFaults()
	}
	classes := make([]sim.Class, len(list))
	for i, fault := range list {
		classes[i] = sim.Class(fault)
	}
	return classes
}
