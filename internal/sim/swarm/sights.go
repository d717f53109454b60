package swarm

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/internal/sim"
)

// Sight is something that a batch of seeds must have seen at least once: a
// batch in which no lease was ever lost says nothing about lost leases.
type Sight string

// What a batch must have seen.
const (
	SawLeaseLost         Sight = "a lease was lost while a task was running"
	SawHandedBack        Sight = "a task was handed back"
	SawCanceled          Sight = "a run was canceled"
	SawFailed            Sight = "a task failed"
	SawTimedOut          Sight = "a task timed out"
	SawSkipped           Sight = "a task was skipped"
	SawRetried           Sight = "a task backed off and was tried again"
	SawExecutedAgain     Sight = "a task was executed again"
	SawEffectRepeated    Sight = "an effect was repeated under its key"
	SawRestart           Sight = "a pod started again"
	SawStop              Sight = "a pod was stopped in good order"
	SawStopOverrun       Sight = "a stop took too long and was killed"
	SawDeploy            Sight = "a new version was deployed"
	SawDeaf              Sight = "a function was deaf to its context"
	SawLateOutput        Sight = "an output came after its context had ended"
	SawDeclaredDead      Sight = "a pod that lived was declared dead"
	SawDeadActs          Sight = "a pod declared dead tried to write"
	SawTwoLeaders        Sight = "a deposed leader tried to act"
	SawPoison            Sight = "a task was taken for a poison pill"
	SawNoPill            Sight = "a task was lost as often as a poison pill, while other pods died too"
	SawSuspect           Sight = "a suspect was claimed"
	SawInline            Sight = "a child was granted at once, among faults"
	SawFirst             Sight = "a first task was granted with the storing of its run, among faults"
	SawCrossedCrash      Sight = "a child became ready after the pod of its parent had gone"
	SawParked            Sight = "tasks were parked"
	SawUnparked          Sight = "parked tasks were put back"
	SawCancelBackoff     Sight = "a cancel met a backoff"
	SawCancelSleep       Sight = "a cancel met a sleep"
	SawCancelFenced      Sight = "a cancel's grace ended for a running task"
	SawCancelTooLate     Sight = "a cancel came after the end"
	SawHandler           Sight = "a failure handler ran"
	SawDynamic           Sight = "a dynamic task ran behind a hole in the numbers of its run"
	SawFailFast          Sight = "a failure stopped what waited beside it"
	SawQueueTimeout      Sight = "a task waited in the queue for too long"
	SawDoubled           Sight = "a trigger was answered twice, with the same run"
	SawDelayedStart      Sight = "a run started later, at its time"
	SawSubmitted         Sight = "a run of the embedder's transaction was started"
	SawInTx              Sight = "a step was recorded in its own transaction"
	SawNotBegun          Sight = "a step was not executed in its own transaction, since its run was held"
	SawTenantLimit       Sight = "a tenant was at its limit"
	SawUnheld            Sight = "a task was found that its pod did not know of"
	SawAmbiguousRecord   Sight = "the pod did not hear that a batch was recorded"
	SawAmbiguousClaim    Sight = "the pod did not hear what it had claimed"
	SawAmbiguousIntake   Sight = "the pod did not hear that a trigger was stored"
	SawLateRecord        Sight = "a batch was recorded after its pod had given up"
	SawLateClaim         Sight = "tasks were claimed after their pod had given up"
	SawRecordConflict    Sight = "a batch was rolled back"
	SawLeftOut           Sight = "a claim left out tasks whose rows were blocked"
	SawBusy              Sight = "a completion had to wait because rows of its run were blocked"
	SawTriggerBusy       Sight = "a trigger had to wait because rows that it needs were blocked"
	SawIntakeLeftOut     Sight = "a run stayed in the intake because its rows were blocked"
	SawUnreadable        Sight = "a read met a damaged page"
	SawBesides           Sight = "all runs but those that needed blocked rows ended"
	SawSignalEarly       Sight = "a signal was there before its step"
	SawSignalWaited      Sight = "a step waited for its signal"
	SawSignalDropped     Sight = "a run ended before its signal was delivered"
	SawDeadline          Sight = "a wait for a signal ended at its deadline"
	SawEndsUnheard       Sight = "a child run ended before it heard that its parent was canceled"
	SawYieldCrash        Sight = "the pod of a parent was lost before it began a child run"
	SawYieldUnheard      Sight = "the pod did not hear that a child run had begun, and reported it again"
	SawYieldStopped      Sight = "a step was to begin a child run, and its run was stopping"
	SawChildUnbegun      Sight = "a child run was canceled before it began"
	SawChildStopped      Sight = "a child run was canceled with its parent while it was running"
	SawChildAbandoned    Sight = "an abandoned child run completed after its parent's step was canceled"
	SawChildJudged       Sight = "conditions looked at the output of a child run"
	SawChildSkips        Sight = "a child run completed without an output"
	SawChildFails        Sight = "a step failed with its child run"
	SawChildAlone        Sight = "a child run was canceled, and its parent was not"
	SawLookWoke          Sight = "the leader told a parent of a child run that had ended without a word"
	SawChildArchived     Sight = "a child run was archived before its parent heard of its end"
	SawDepth             Sight = "three runs were above a run"
	SawRequeued          Sight = "a run continued another that had failed with its child run"
	SawSameKeys          Sight = "a child run of a requeued run had the keys of the one before"
	SawMapBroke          Sight = "a map failed with its elements"
	SawMapTolerated      Sight = "a map completed although elements had failed"
	SawWindowMoved       Sight = "an element began in the place of another in a full window"
	SawElementsTaken     Sight = "a requeued run took over an element"
	SawElementLost       Sight = "an element was lost with its pod"
	SawElementStopped    Sight = "an element was lost or handed back while its map failed, and was not executed again"
	SawElementPages      Sight = "a map read its elements in pages"
	SawMapElsewhere      Sight = "a map was gathered by another pod than the one that had split its list"
	SawSpreadUnheard     Sight = "the pod did not hear that elements had begun, and reported them again"
	SawActivationUnheard Sight = "the pod did not hear that an activation was recorded, and reported it again"
	SawMigrated          Sight = "a machine went on with a newer version of its program"
	SawMachineCompleted  Sight = "a machine completed"
	SawMachineStalled    Sight = "a machine stalled"
	SawUnheardTimer      Sight = "a timer was canceled that had fired and was not handled"
	SawCancelHeard       Sight = "a machine heard of a cancel"
	SawStoppedLate       Sight = "an activity completed that its machine had canceled"
	SawEntriesTogether   Sight = "an activation handled several entries"
	SawSpared            Sight = "the stream was spared because all pods were busy, and came back"
)

// Sights lists what a batch must have seen.
func Sights() []Sight {
	return []Sight{
		SawLeaseLost, SawHandedBack, SawCanceled, SawFailed, SawTimedOut, SawSkipped, SawRetried, SawExecutedAgain,
		SawEffectRepeated, SawRestart, SawStop, SawStopOverrun, SawDeploy, SawDeaf, SawLateOutput, SawDeclaredDead,
		SawDeadActs, SawTwoLeaders, SawPoison, SawNoPill, SawSuspect, SawInline, SawFirst, SawCrossedCrash, SawParked, SawUnparked,
		SawCancelBackoff, SawCancelSleep, SawCancelFenced, SawCancelTooLate, SawHandler, SawDynamic, SawFailFast, SawQueueTimeout,
		SawDoubled, SawDelayedStart, SawSubmitted, SawInTx, SawNotBegun, SawTenantLimit, SawUnheld, SawAmbiguousRecord,
		SawAmbiguousClaim, SawAmbiguousIntake, SawLateRecord, SawLateClaim, SawRecordConflict, SawLeftOut, SawBusy,
		SawTriggerBusy, SawIntakeLeftOut, SawUnreadable, SawBesides, SawSpared,
		SawSignalEarly, SawSignalWaited, SawSignalDropped, SawDeadline,
		SawEndsUnheard, SawYieldCrash, SawYieldUnheard, SawYieldStopped, SawChildUnbegun, SawChildStopped, SawChildAbandoned,
		SawChildJudged, SawChildSkips, SawChildFails, SawChildAlone, SawLookWoke, SawChildArchived, SawDepth, SawRequeued, SawSameKeys,
		SawMapBroke, SawMapTolerated, SawWindowMoved, SawElementsTaken, SawElementLost, SawElementStopped, SawElementPages,
		SawMapElsewhere, SawSpreadUnheard,
		SawActivationUnheard, SawMigrated, SawMachineCompleted, SawMachineStalled, SawUnheardTimer, SawCancelHeard, SawStoppedLate, SawEntriesTogether,
	}
}

// SometimesAfter is how many seeds, with all faults, must be enough to see
// everything.
const SometimesAfter = 2000

// sightsOfFaults notes what faults by themselves are worth.
func (s *seed) sightsOfFaults() {
	for _, f := range s.world.Happened() {
		_, call, _ := strings.Cut(f.Place, " ")
		if sight, ok := sightOf(f.Class, call); ok {
			s.saw(sight)
		}
	}
}

// watchFeeds sees once a second how wakes reach the pods. One that is alone
// needs no stream, busy or not.
func (s *seed) watchFeeds() {
	for _, slot := range s.pods {
		if slot.pod == nil || slot.pod.Pod == nil {
			slot.spared = false
			continue
		}
		stats := slot.pod.Pod.Stats()
		switch {
		case stats.Pods < 2:
			slot.spared = false
		case stats.Mode == cluster.ModeSpared.String():
			slot.spared = true
		case slot.spared && (stats.Mode == cluster.ModeStream.String() || stats.Mode == cluster.ModeRelay.String()):
			slot.spared = false
			s.saw(SawSpared)
		}
	}
	s.world.After(time.Second, s.watchFeeds)
}

func sightOf(class sim.Class, call string) (Sight, bool) {
	switch {
	case class == sim.StopOverrun:
		return SawStopOverrun, true
	case class == sim.StoreAnswer && call == "record_transitions":
		return SawAmbiguousRecord, true
	case class == sim.StoreAnswer && call == "claim_tasks":
		return SawAmbiguousClaim, true
	case class == sim.StoreAnswer && call == "trigger_runs":
		return SawAmbiguousIntake, true
	case class == sim.StoreLate && call == "record_transitions":
		return SawLateRecord, true
	case class == sim.StoreLate && call == "claim_tasks":
		return SawLateClaim, true
	case class == sim.StoreConflict && call == "record_transitions":
		return SawRecordConflict, true
	}
	return "", false
}

// Unmet lists what the batch has not seen: sights, and classes of faults that
// were to happen and did not.
func (b *Batch) Unmet() []string {
	var unmet []string
	for _, sight := range Sights() {
		if b.Saw[sight] == 0 {
			unmet = append(unmet, string(sight))
		}
	}
	for _, class := range b.plan.Options.Classes {
		if b.Happened[class] == 0 {
			unmet = append(unmet, "a fault of the class "+string(class))
		}
	}
	return unmet
}

// Rarest lists what was seen, the rarest first, with the number of seeds.
func (b *Batch) Rarest() []Sight {
	list := Sights()
	slices.SortStableFunc(list, func(x, y Sight) int { return cmp.Compare(b.Saw[x], b.Saw[y]) })
	return list
}
