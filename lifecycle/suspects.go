package lifecycle

// A task that was lost with its pod may be what ended it: a poison pill. Or it was
// beside one, or the pod went for a cause of its own. ADR 0022 has the reasons for
// what follows.

// suspectAfter returns how many losses make a suspect of a task, of which a pod executes
// one at a time: two, so that all that a pod had that merely went is tried again at
// once, and what ran beside a pill twice has a loss left.
func suspectAfter(maxLost int32) int32 {
	if maxLost == 2 {
		return 1
	}
	return 2
}

// loopDeaths is how many pods die lately for each loss of a task where pods die by
// themselves, one after the other.
const loopDeaths = 8

// isSuspect reports whether a task is to be executed apart from now on. In a loop of
// crashes it is not, unless it may be failed at its next loss.
func isSuspect(lost int32, r TaskReported) bool {
	loop := r.Deaths.Lately >= loopDeaths*lost && lost < r.MaxLost
	return lost >= suspectAfter(r.MaxLost) && !loop
}

// isPill reports whether a task was lost too often. That takes a loss while it was
// executed apart, and no more pods that died lately than it has losses, however old
// those are, nor as many without it as with it within a day: then something else ends
// pods. Neither counts for long, and a step that allows one loss gets no second attempt.
func isPill(t *Task, r TaskReported) bool {
	switch lost := t.Lost; {
	case lost < r.MaxLost:
		return false
	case r.MaxLost == 1, lost >= 2*r.MaxLost:
		return true
	default:
		others := r.Deaths.Lately > lost || r.Deaths.Kept >= 2*lost
		return t.Flags.Has(FlagSuspect) && !others
	}
}
