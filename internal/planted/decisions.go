package planted

// decisions are mistakes in what a fact does to a run.
func decisions() []Plant {
	return []Plant{
		{
			Name: "unfenced-record", Seeds: 1000,
			What: "a report counts whichever pod sends it, so that a zombie completes the attempt of another",
			File: "lifecycle/decide_facts.go",
			Old:  `if t.State != Running || t.Epoch != r.Epoch || t.Pod != r.Pod {`,
			New:  `if t.State != Running || (t.Epoch != r.Epoch || t.Pod != r.Pod) && !planted.On("unfenced-record") {`,
		},
		{
			Name: "fan-in-read-then-write", Seeds: 1000,
			What: "two parents that end in one batch both read the old count of open parents",
			File: "lifecycle/decide.go",
			Old:  "\t\t\tchild.Pending--\n\t\t\tchild.Flags",
			New:  "\t\t\tif !(d.note(child.Step).changed && planted.On(\"fan-in-read-then-write\")) {\n\t\t\t\tchild.Pending--\n\t\t\t}\n\t\t\tchild.Flags",
		},
		{
			Name: "fan-in-counted-twice", Seeds: 1000,
			What: "a record that is repeated after an unknown outcome tells the children again",
			File: "lifecycle/decide_facts.go",
			Old:  "\t\t\treturn AlreadyYours\n\t\t}\n\t\treturn Stale\n",
			New: "\t\t\tif r.Kind == Succeeded && planted.On(\"fan-in-counted-twice\") {\n\t\t\t\td.ended = append(d.ended, t.Step)\n\t\t\t}\n" +
				"\t\t\treturn AlreadyYours\n\t\t}\n\t\treturn Stale\n",
		},
		{
			Name: "dead-letter-forgotten", Seeds: 1000,
			What: "a task that its pods died with leaves no dead letter",
			File: "lifecycle/decide_task.go",
			Old:  "\td.out.Dead = append(d.out.Dead, Death{t.Step, reason, t.Handled()})\n",
			New:  "\tif reason != PoisonPill || !planted.On(\"dead-letter-forgotten\") {\n\t\td.out.Dead = append(d.out.Dead, Death{t.Step, reason, t.Handled()})\n\t}\n",
		},
		{
			Name: "cancel-misses-backoff", Seeds: 1000,
			What: "a cancel leaves a task alone that waits for its next attempt",
			File: "lifecycle/decide_task.go",
			Old:  `t.State == Backoff || `,
			New:  `t.State == Backoff && !planted.On("cancel-misses-backoff") || `,
		},
		{
			Name: "cancel-misses-wait", Seeds: 1000,
			What: "a cancel leaves a task alone that waits for a signal",
			File: "lifecycle/decide_task.go",
			Old:  `|| t.State == Waiting {`,
			New:  `|| t.State == Waiting && !planted.On("cancel-misses-wait") {`,
		},
		{
			Name: "wait-overlooks-signal", Seeds: 1000,
			What: "a step waits for a signal that is there",
			File: "lifecycle/decide_signal.go",
			Old:  `slices.IndexFunc(d.inbox.entries, is); i >= 0 {`,
			New:  `slices.IndexFunc(d.inbox.entries, is); i >= 0 && !planted.On("wait-overlooks-signal") {`,
		},
		{
			Name: "fast-path-on-slow-run", Seeds: 1000,
			What: "a completion takes the path that knows neither cancels nor failures of its run",
			File: "lifecycle/decide_task.go",
			Old:  "\tcase d.run.Canceling:\n\t\td.cut(t, Event{})\n\t\treturn\n",
			New:  "\tcase planted.On(\"fast-path-on-slow-run\"):\n\tcase d.run.Canceling:\n\t\td.cut(t, Event{})\n\t\treturn\n",
		},
	}
}

// counters are mistakes in what is counted, and in how runs end.
func counters() []Plant {
	return []Plant{
		{
			Name: "attempt-not-counted", Seeds: 1000,
			What: "a failed attempt does not raise the counter",
			File: "lifecycle/decide_facts.go",
			Old:  "\tt.Attempt++\n",
			New:  "\tif !planted.On(\"attempt-not-counted\") {\n\t\tt.Attempt++\n\t}\n",
		},
		{
			Name: "loss-not-counted", Seeds: 1000,
			What: "a lost attempt does not raise the counter",
			File: "lifecycle/decide_facts.go",
			Old:  "\tt.Lost++\n",
			New:  "\tif !planted.On(\"loss-not-counted\") {\n\t\tt.Lost++\n\t}\n",
		},
		{
			Name: "poison-pill-for-ever", Seeds: 1000,
			What: "a task that takes its pods down with it is tried without end",
			File: "lifecycle/decide_facts.go",
			Old:  `case pill:`,
			New:  `case pill && !planted.On("poison-pill-for-ever"):`,
		},
		{
			Name: "hand-back-charged", Seeds: 1000,
			What: "a task that its pod hands back loses an attempt",
			File: "lifecycle/decide_facts.go",
			Old:  "func (d *decider) released(t *Task) {\n",
			New:  "func (d *decider) released(t *Task) {\n\tif planted.On(\"hand-back-charged\") {\n\t\tt.Attempt++\n\t}\n",
		},
		{
			Name: "skip-cascade-stops", Seeds: 1000,
			What: "children of a skipped task are not told",
			File: "lifecycle/decide.go",
			Old:  "\t\td.ended = append(d.ended, t.Step)\n",
			New:  "\t\tif next != Skipped || !planted.On(\"skip-cascade-stops\") {\n\t\t\td.ended = append(d.ended, t.Step)\n\t\t}\n",
		},
		{
			Name: "handler-twice", Seeds: 1000,
			What: "the failure handler runs again when it has ended",
			File: "lifecycle/decide_run.go",
			Old:  `!d.run.HandlerMade && !d.run.Canceling {`,
			New:  `(!d.run.HandlerMade || planted.On("handler-twice")) && !d.run.Canceling {`,
		},
		{
			Name: "dynamic-task-not-counted", Seeds: 1000,
			What: "a run ends without the tasks that were made while it went on",
			File: "lifecycle/dynamic.go",
			Old:  "\td.run.Remaining++\n",
			New:  "\tif t.Dynamic == nil || !planted.On(\"dynamic-task-not-counted\") {\n\t\td.run.Remaining++\n\t}\n",
		},
		{
			Name: "timer-left-behind", Seeds: 1000,
			What: "the timer of a task that moves on stays",
			File: "lifecycle/decide.go",
			Old:  "\t\td.out.DropTimers = append(d.out.DropTimers, t.Step)\n\t}\n\tm := d.note(t.Step)",
			New:  "\t\tif !planted.On(\"timer-left-behind\") {\n\t\t\td.out.DropTimers = append(d.out.DropTimers, t.Step)\n\t\t}\n\t}\n\tm := d.note(t.Step)",
		},
		{
			Name: "inline-without-fairness", Seeds: 1000,
			What: "a child is granted at once although another tenant is before it",
			File: "lifecycle/fair.go",
			Old:  "\treturn granted < room &&",
			New:  "\tif planted.On(\"inline-without-fairness\") {\n\t\treturn granted < room\n\t}\n\treturn granted < room &&",
		},
	}
}
