package sim

// The classes of faults that the world makes happen by itself. Workloads add
// their own.
const (
	PodCrash      Class = "pod-crash"       // SIGKILL between two messages; it starts again later
	PodRename     Class = "pod-rename"      // it starts again under another name
	PodStop       Class = "pod-stop"        // graceful, then it starts again
	PodPause      Class = "pod-pause"       // frozen for up to several leases
	PodSlow       Class = "pod-slow"        // every message takes a while, for a while
	ActorPanic    Class = "actor-panic"     // before, after or instead of a message
	StoreLost     Class = "store-lost"      // the connection breaks before the commit
	StoreAnswer   Class = "store-answer"    // and here after it: the outcome is unknown
	StoreLate     Class = "store-late"      // the caller has given up when it is committed
	StoreConflict Class = "store-conflict"  // serialization failure, deadlock, lock timeout
	StoreSlow     Class = "store-slow"      // hundreds of times as slow
	StoreFrozen   Class = "store-frozen"    // no answer until the caller's timeout
	StoreDown     Class = "store-down"      // all connections drop, and none is made for a while
	StorePool     Class = "store-pool"      // the pool is exhausted: calls of a pod wait
	StoreAway     Class = "store-away"      // the proxy of a pod's pool is gone; lease and lead go past it
	StoreHeld     Class = "store-held"      // an outside session locks the rows of some runs, for a while
	StoreTenant   Class = "store-tenant"    // or the fairness counters of a tenant
	StoreDamaged  Class = "store-damaged"   // the rows of some runs cannot be read, for a while
	NoDefinition  Class = "store-undefined" // an operator deletes a definition; a program that starts registers it again
	WakeLost      Class = "wake-lost"       // one wake does not arrive
	WakeDoubled   Class = "wake-doubled"    // or twice
	WakeLate      Class = "wake-late"       // or seconds later, after others
	StreamLost    Class = "stream-lost"     // the replication stream breaks
	ListenerLost  Class = "listener-lost"   // the connection that listens breaks
	RelaySilent   Class = "relay-silent"    // notifications do not arrive for a while
	TermLost      Class = "term-lost"       // the leader's session breaks, and it does not know
	ClockSkew     Class = "clock-skew"      // the clock of a pod is wrong
	ClockDrift    Class = "clock-drift"     // and goes fast or slow
	Buggify       Class = "buggify"         // a rare choice of the engine's own
	NoStream      Class = "no-stream"       // this database offers none
	StopOverrun   Class = "pod-stop-killed" // killed in the middle of a graceful stop
)

// Classes lists them.
func Classes() []Class {
	return []Class{
		PodCrash, PodRename, PodStop, PodPause, PodSlow, ActorPanic, StoreLost, StoreAnswer, StoreLate, StoreConflict,
		StoreSlow, StoreFrozen, StoreDown, StorePool, StoreAway, StoreHeld, StoreTenant, StoreDamaged, NoDefinition,
		WakeLost, WakeDoubled, WakeLate, StreamLost, ListenerLost, RelaySilent, TermLost, ClockSkew, ClockDrift, Buggify, NoStream, StopOverrun,
	}
}

// usual is how often a class happens per visit of a place, in the middle of
// what is drawn.
func usual(class Class) float64 {
	switch class {
	case PodCrash, PodPause, PodStop, PodSlow: // visited by every message of a pod
		return 0.001
	case StoreDown, StorePool, StoreAway, StoreHeld, StoreTenant, StoreDamaged, NoDefinition:
		return 0.001
	case ActorPanic:
		return 0.0005
	case StoreLost, StoreAnswer, StoreLate, StoreConflict, StoreSlow, StoreFrozen:
		return 0.01
	case WakeLost, WakeDoubled, WakeLate:
		return 0.05
	case StreamLost, ListenerLost, RelaySilent, TermLost: // visited once a second
		return 0.02
	case PodRename, StopOverrun, ClockSkew, ClockDrift, NoStream: // visited once a start
		return 0.5
	case Buggify:
		return 0.1
	}
	return 0.05
}
