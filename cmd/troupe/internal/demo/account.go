package demo

// taskHistory is what the database says about one task that pods execute.
type taskHistory struct {
	starts    int // times that it was granted to a pod
	losses    int // times that its pod died, or handed it back
	retries   int // times that it failed and was to be tried again
	completed int // completions recorded: 1, or something is wrong
	slept     int // times that its durable timer was set
	woken     int // times that the timer fired
}

// account compares what step functions did with what the database recorded.
type account struct {
	Begun    int // executions of step functions
	Repeated int // tasks whose function came to its end again, after a loss
	Missing  int // tasks recorded as completed that no step function did
	Phantom  int // executions that were not granted
	Excess   int // ends of step functions that no loss explains
	Double   int // tasks with more than one completion
	Retries  int
	Sleeps   int
	Lost     int // losses of tasks, each charged to a dead pod
	Regained int // tasks that were lost and completed after all
}

// balanced reports whether each effect belongs to a grant and each completion
// to an effect.
func (a account) balanced() bool { return a.Missing == 0 && a.Phantom == 0 && a.Excess == 0 }

// balance goes through the ledgers and the history task by task.
func balance(ledgers map[taskKey]effects, history map[taskKey]taskHistory) account {
	var sum account
	for key, task := range history {
		done := ledgers[key]
		sum.Begun += done.begun
		sum.Retries += task.retries
		sum.Sleeps += task.slept
		sum.Lost += task.losses
		if task.losses > 0 && task.completed > 0 {
			sum.Regained++
		}
		if task.completed+task.woken > 1 {
			sum.Double++
		}
		if done.ended > 1 {
			sum.Repeated++
		}
		if task.completed > 0 && done.ended == 0 {
			sum.Missing++
		}
		sum.Phantom += max(0, done.begun-task.starts)
		sum.Excess += max(0, done.ended-1-task.losses)
	}
	for key, done := range ledgers {
		if _, known := history[key]; !known {
			sum.Phantom += done.begun
		}
	}
	return sum
}
