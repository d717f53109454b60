package planted

// actors are mistakes in how tasks are claimed, executed and recorded.
func actors() []Plant {
	return []Plant{
		{
			Name: "retry-in-memory", Seeds: 1000,
			What: "a failed attempt is repeated by its actor, and the database does not know",
			File: "actors/run.go",
			Old:  "\toutcome.Task, outcome.Pool = a.task.GetTask(), a.pool\n",
			New: "\tif outcome.GetRetry() && planted.On(\"retry-in-memory\") {\n\t\ta.attempt, a.returned = nil, false\n" +
				"\t\ta.later(time.Duration(outcome.GetRetryIn()), a.load)\n\t\treturn\n\t}\n" +
				"\toutcome.Task, outcome.Pool = a.task.GetTask(), a.pool\n",
		},
		{
			Name: "claim-not-asked-again", Seeds: 1000,
			What: "a claim whose outcome is unknown is forgotten",
			File: "actors/claimer.go",
			Old:  "\tif wait, failed := a.call.failed(a.rt, \"claim_tasks\", err); failed {\n",
			New: "\tif wait, failed := a.call.failed(a.rt, \"claim_tasks\", err); failed {\n\t\tif planted.On(\"claim-not-asked-again\") {\n" +
				"\t\t\ta.carryover.unknown = nil\n\t\t\ta.free[open.pool] += open.request.Limit\n\t\t\ta.wakeAll()\n\t\t\treturn\n\t\t}\n",
		},
		{
			Name: "unheld-never-found", Seeds: 1000,
			What: "a task whose grant never arrived stays with its pod for ever",
			File: "actors/pulse.go",
			Old:  "\tif len(unheld.GetTasks()) > 0 {",
			New:  "\tif len(unheld.GetTasks()) > 0 && !planted.On(\"unheld-never-found\") {",
		},
		{
			Name: "journal-drops-unknown", Seeds: 1000,
			What: "a batch whose outcome is unknown is taken for recorded",
			File: "actors/journal.go",
			Old:  "\tif wait, failed := a.call.failed(a.rt, \"record_transitions\", err); failed {\n",
			New: "\tif wait, failed := a.call.failed(a.rt, \"record_transitions\", err); failed {\n\t\tif planted.On(\"journal-drops-unknown\") {\n" +
				"\t\t\ta.carryover.current = nil\n\t\t\ta.flush()\n\t\t\treturn\n\t\t}\n",
		},
		{
			Name: "ack-before-commit", Seeds: 1000,
			What: "a trigger is acknowledged when it is sent to the database",
			File: "actors/intake_batch.go",
			Old:  "\ta.rt.recorder.observe(MetricTriggerBatch, float64(len(rows)))\n",
			New: "\tif planted.On(\"ack-before-commit\") {\n\t\tfor _, q := range open.questions {\n\t\t\tvar answers []persistence.TriggerAnswer\n\t\t\tfor _, t := range q.triggers {\n" +
				"\t\t\t\tanswers = append(answers, persistence.TriggerAnswer{Result: persistence.Triggered, Run: t.Run})\n\t\t\t}\n" +
				"\t\t\tq.answer(triggerAnswers{answers: answers})\n\t\t}\n\t}\n" +
				"\ta.rt.recorder.observe(MetricTriggerBatch, float64(len(rows)))\n",
		},
		{
			Name: "trigger-renamed", Seeds: 1000,
			What: "triggers whose outcome is unknown are stored again under new run ids",
			File: "actors/intake_batch.go",
			Old:  "\ta.rt.storeFailed(name, err)\n",
			New: "\ta.rt.storeFailed(name, err)\n\tif planted.On(\"trigger-renamed\") {\n\t\t\topen.reservation = nil\n\t\t\tfor _, q := range open.questions {\n" +
				"\t\t\t\tfor i := range q.triggers {\n\t\t\t\t\tq.triggers[i].Run, q.triggers[i].Key = a.rt.newRunID(), \"\"\n\t\t\t\t}\n\t\t\t}\n\t\t}\n",
		},
	}
}

// slots are mistakes in the account of what a pod may execute at once.
func slots() []Plant {
	return []Plant{
		{
			Name: "deaf-slot-freed-twice", Seeds: 1000,
			What: "a deaf function gives its slot up when it is abandoned, and again when it returns",
			File: "actors/ledger.go",
			Old:  "\tdelete(l.unresponsive, name)\n\tif u.keepSlot {",
			New:  "\tdelete(l.unresponsive, name)\n\tif u.keepSlot || planted.On(\"deaf-slot-freed-twice\") {",
		},
		{
			Name: "aside-slot-freed-twice", Seeds: 1000,
			What: "a task whose outcome has to wait gives its slot back, and again when it is recorded",
			File: "actors/ledger.go",
			Old:  "\tif h.withoutSlot || h.awaitingRecord {\n",
			New:  "\tif h.withoutSlot || h.awaitingRecord && !planted.On(\"aside-slot-freed-twice\") {\n",
		},
		{
			Name: "slots-lent-twice", Seeds: 1000,
			What: "the claimer spends slots that it has reserved",
			File: "actors/slotreservation.go",
			Old:  "\t\ta.free[pool] -= slots\n",
			New:  "\t\tif !planted.On(\"slots-lent-twice\") {\n\t\t\ta.free[pool] -= slots\n\t\t}\n",
		},
	}
}
