package planted

// tables are mistakes in what a transaction of the database does.
func tables() []Plant {
	return []Plant{
		{
			Name: "frontier-from-maximum", Seeds: 1000,
			What: "a tenant that comes late starts behind everything that is queued",
			File: "persistence/memory/queue.go",
			Old:  "\tq.counters[c] = lifecycle.NextBlock(q.counters[c], q.frontier)\n",
			New: "\tif planted.On(\"frontier-from-maximum\") {\n\t\tfor i := range q.rows {\n\t\t\tq.served(q.rows[i].fairID)\n\t\t}\n\t}\n" +
				"\tq.counters[c] = lifecycle.NextBlock(q.counters[c], q.frontier)\n",
		},
		{
			Name: "inline-moves-the-frontier", Seeds: 3000,
			What: "a child granted before the rows of its own tenant leaves the frontier behind them",
			File: "persistence/memory/batch.go",
			Old:  "\t\tif keep != nil && !keep(e) {\n",
			New: "\t\tif keep != nil && !keep(e) {\n\t\t\tif planted.On(\"inline-moves-the-frontier\") {\n" +
				"\t\t\t\tq.served(q.take(b.s.tenants[e.run.trigger.Tenant].group, e.lane))\n\t\t\t}\n",
		},
		{
			Name: "timer-early", Seeds: 1000,
			What: "a timer fires up to a second before its instant",
			File: "persistence/memory/timers.go",
			Old:  `return t.rows[i].at.After(now) }`,
			New:  "return t.rows[i].at.After(now) && !(planted.On(\"timer-early\") && t.rows[i].at.Sub(now) < 1e9) }",
		},
		{
			Name: "start-timer-stays", Seeds: 1000,
			What: "a timer that has fired is due again",
			File: "persistence/memory/leader.go",
			Old:  "\t\ts.timers.drop(t.timerKey)\n",
			New:  "\t\tif !planted.On(\"start-timer-stays\") {\n\t\t\ts.timers.drop(t.timerKey)\n\t\t}\n",
		},
		{
			Name: "dead-pod-claims", Seeds: 1000,
			What: "the late claim of a pod that was declared dead makes its row anew",
			File: "persistence/memory/tables.go",
			Old:  "\tp := s.pods[id]\n\tif p == nil || p.dead || !p.expires.After(now) {\n",
			New: "\tp := s.pods[id]\n\tif p == nil && planted.On(\"dead-pod-claims\") {\n\t\tp = &pod{id: id, expires: now}\n\t\ts.pods[id] = p\n\t\treturn p, nil\n\t}\n" +
				"\tif p == nil || p.dead || !p.expires.After(now) {\n",
		},
		{
			Name: "leader-not-fenced", Seeds: 1000,
			What: "a deposed leader fires timers",
			File: "persistence/memory/leader.go",
			Old:  "\tif epoch != s.epoch {\n\t\treturn persistence.Fired{}",
			New:  "\tif epoch != s.epoch && !planted.On(\"leader-not-fenced\") {\n\t\treturn persistence.Fired{}",
		},
		{
			Name: "output-overwritten", Seeds: 1000,
			What: "the output of an attempt that came too late replaces the recorded one",
			File: "persistence/memory/record.go",
			Old:  "\tif moved != lifecycle.Moved {\n\t\tanswer.Err = nil\n",
			New: "\tif moved == lifecycle.Stale && t.Report == lifecycle.Succeeded && planted.On(\"output-overwritten\") {\n" +
				"\t\tif late := r.task(t.Task.Step); late != nil && late.State == lifecycle.Completed {\n\t\t\tr.details[t.Task.Step].output = bytes.Clone(t.Output)\n\t\t}\n\t}\n" +
				"\tif moved != lifecycle.Moved {\n\t\tanswer.Err = nil\n",
		},
		{
			Name: "tenant-limit-ignored", Seeds: 1000,
			What: "a claim does not look at the tenant's limit",
			File: "persistence/memory/claim.go",
			Old:  "\t\tcase request.TenantLimit > 0 && b.s.full(",
			New:  "\t\tcase request.TenantLimit > 0 && !planted.On(\"tenant-limit-ignored\") && b.s.full(",
		},
		{
			Name: "key-not-unique", Seeds: 1000,
			What: "a trigger that is repeated with its key makes a second run",
			File: "persistence/memory/trigger.go",
			Old:  "\tif t.Key != \"\" {\n\t\tif answer := s.examineKey(",
			New:  "\tif t.Key != \"\" && !planted.On(\"key-not-unique\") {\n\t\tif answer := s.examineKey(",
		},
	}
}

// outOfReach are mistakes in what is done about rows that are locked, damaged or deleted.
func outOfReach() []Plant {
	return []Plant{
		{
			Name: "locked-completion-lost", Seeds: 1000,
			What: "a completion of a run whose rows are locked is answered as recorded",
			File: "persistence/memory/record.go",
			Old:  "\t\t\t\tout.Answers[i] = persistence.RecordAnswer{Result: lifecycle.Busy}\n",
			New: "\t\t\t\tout.Answers[i] = persistence.RecordAnswer{Result: lifecycle.Busy}\n" +
				"\t\t\t\tif planted.On(\"locked-completion-lost\") {\n\t\t\t\t\tout.Answers[i].Result = lifecycle.Moved\n\t\t\t\t}\n",
		},
		{
			Name: "unreadable-leaves-queue", Seeds: 1000,
			What: "a claim that leaves a task of a damaged run out takes it from the queue for ever",
			File: "persistence/memory/claim.go",
			Old:  "\t\t\tout.Again = lookAgain\n",
			New: "\t\t\tout.Again = lookAgain\n\t\t\tif b.s.unreadable(row.task.Run) && planted.On(\"unreadable-leaves-queue\") {\n" +
				"\t\t\t\tcontinue\n\t\t\t}\n",
		},
		{
			Name: "blocked-task-stops-claim", Seeds: 1000,
			What: "a claim that meets a task whose rows are blocked looks at none behind it",
			File: "persistence/memory/claim.go",
			Old:  "\t\t\tkept = append(kept, row)\n\t\tcase request.TenantLimit",
			New: "\t\t\tkept = append(kept, row)\n\t\t\tif planted.On(\"blocked-task-stops-claim\") {\n\t\t\t\tlimit = out.Scanned\n\t\t\t}\n" +
				"\t\tcase request.TenantLimit",
		},
		{
			Name: "undefined-timer-orphaned", Seeds: 1000,
			What: "a timer of a run whose definition is missing is deleted as that of a deleted run",
			File: "persistence/memory/blocked.go",
			Old:  "\t\tif s.runs[t.run] == nil {\n",
			New:  "\t\tif r := s.runs[t.run]; r == nil || planted.On(\"undefined-timer-orphaned\") && s.blocked[Blocked{Definition: r.trigger.Definition}] {\n",
		},
	}
}

// situations is what can be told of why a run does not move.
func situations() []Plant {
	return []Plant{
		{
			Name: "backoff-unexplained", Seeds: 1000,
			What: "why a task waits for its next attempt cannot be told: its timer is not read",
			File: "persistence/memory/situation.go",
			Old:  "\tif t.State == lifecycle.Queued {\n\t\te.Expires = ",
			New: "\tif t.State == lifecycle.Backoff && planted.On(\"backoff-unexplained\") {\n\t\te.Timer = time.Time{}\n\t}\n" +
				"\tif t.State == lifecycle.Queued {\n\t\te.Expires = ",
		},
	}
}
