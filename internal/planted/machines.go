package planted

// machines are mistakes in what activations of state machines are given and decide.
func machines() []Plant {
	return []Plant{
		{
			Name: "machine-waits-early", Seeds: 1000,
			What: "a machine waits although entries have come while it was activated",
			File: "lifecycle/decide_machine.go",
			Old:  "\tif d.run.Signals > a.Taken {\n",
			New:  "\tif d.run.Signals > a.Taken && !planted.On(\"machine-waits-early\") {\n",
		},
		{
			Name: "entry-lost", Seeds: 1000,
			What: "the end of what a machine has started is no entry of its inbox",
			File: "lifecycle/decide_machine.go",
			Old:  "\td.tasks[i].Entry = d.run.Signals\n",
			New:  "\tif !planted.On(\"entry-lost\") {\n\t\td.tasks[i].Entry = d.run.Signals\n\t}\n",
		},
		{
			Name: "canceled-timer-fires", Seeds: 1000,
			What: "a machine hears of a timer that it has canceled, because that had fired before",
			File: "lifecycle/decide_machine.go",
			Old:  "\t\t\tt.Entry = -t.Entry\n",
			New:  "\t\t\tif !planted.On(\"canceled-timer-fires\") {\n\t\t\t\tt.Entry = -t.Entry\n\t\t\t}\n",
		},
		{
			Name: "cancel-of-new-lost", Seeds: 1000,
			What: "what an activation starts and cancels begins all the same",
			File: "lifecycle/decide_machine.go",
			Old:  "\tfor _, step := range a.Cancel { // what has just begun, too\n",
			New: "\tfor _, step := range a.Cancel { // what has just begun, too\n" +
				"\t\tif int(step) > int(d.run.Steps+d.run.Dynamic)-len(a.Start) && planted.On(\"cancel-of-new-lost\") {\n\t\t\tcontinue\n\t\t}\n",
		},
		{
			Name: "state-without-actions", Seeds: 1000,
			What: "the state of an activation is stored without what it starts",
			File: "lifecycle/decide_machine.go",
			Old:  "\td.make(machine, a.Start)\n",
			New:  "\tif !planted.On(\"state-without-actions\") {\n\t\td.make(machine, a.Start)\n\t}\n",
		},
	}
}

// machineEnds are mistakes in how machines and what they have started end.
func machineEnds() []Plant {
	return []Plant{
		{
			Name: "machine-losses-add-up", Seeds: 1000,
			What: "a recorded activation does not set back what its machine was lost",
			File: "lifecycle/decide_machine.go",
			Old:  "\tt.Attempt, t.Lost, t.Class, t.Error = 0, 0, \"\", \"\"\n",
			New:  "\tt.Attempt, t.Class, t.Error = 0, \"\", \"\"\n\tif !planted.On(\"machine-losses-add-up\") {\n\t\tt.Lost = 0\n\t}\n",
		},
		{
			Name: "machine-end-forgets", Seeds: 1000,
			What: "a run ends before what its machine has left running",
			File: "lifecycle/decide_machine.go",
			Old:  "\t\t\t\tt.Flags |= FlagLeft\n",
			New:  "\t\t\t\tt.Flags |= FlagLeft\n\t\t\t\tif planted.On(\"machine-end-forgets\") {\n\t\t\t\t\td.run.Remaining--\n\t\t\t\t\tcontinue\n\t\t\t\t}\n",
		},
		{
			Name: "cancel-unheard", Seeds: 1000,
			What: "a machine does not hear of a cancel of its run",
			File: "lifecycle/decide_machine.go",
			Old:  "\tt.Entry, t.WakeAt = d.run.Signals, Instant(d.now)\n",
			New:  "\tt.WakeAt = Instant(d.now)\n\tif !planted.On(\"cancel-unheard\") {\n\t\tt.Entry = d.run.Signals\n\t} else {\n\t\td.run.Signals--\n\t}\n",
		},
		{
			Name: "stall-unnoticed", Seeds: 1000,
			What: "a machine waits for ever that has nothing open and hears no signals",
			File: "lifecycle/decide_machine.go",
			Old:  "\tif m := d.machine(); a.Deaf && ",
			New:  "\tif m := d.machine(); a.Deaf && !planted.On(\"stall-unnoticed\") && ",
		},
		{
			Name: "stopped-child-begins", Seeds: 1000,
			What: "a child run begins that its machine has canceled meanwhile",
			File: "lifecycle/decide_child.go",
			Old:  "\t\td.released(t)\n\tcase spreads:\n",
			New: "\t\tif t.stopped() && planted.On(\"stopped-child-begins\") {\n\t\t\td.move(t, Waiting, Event{Kind: EventWaiting, By: r.Child})\n" +
				"\t\t\td.out.Begun = append(d.out.Begun, t.Step)\n\t\t\treturn Moved\n\t\t}\n\t\td.released(t)\n\tcase spreads:\n",
		},
		{
			Name: "activation-taken-twice", Seeds: 1000,
			What: "an activation that is reported again after an unknown outcome is taken again",
			File: "lifecycle/decide_facts.go",
			Old:  "func (d *decider) report(r TaskReported) Answer {\n\tt := d.named(r.Step)\n",
			New: "func (d *decider) report(r TaskReported) Answer {\n\tt := d.named(r.Step)\n" +
				"\tif t != nil && r.Activation != nil && t.Pod == r.Pod && t.Epoch == r.Epoch+1 && t.State == Waiting && planted.On(\"activation-taken-twice\") {\n" +
				"\t\tt.State = Running\n\t\treturn d.activated(t, r.Activation)\n\t}\n",
		},
	}
}

// states are mistakes in what a store keeps of machines.
func states() []Plant {
	return []Plant{
		{
			Name: "entry-handled-twice", Seeds: 1000,
			What: "an activation is given the last entry that the one before has handled",
			File: "persistence/memory/machine.go",
			Old:  "s.entriesOf(r, m.taken, persistence.EntriesMax, persistence.EntriesBytes)\n",
			New:  "s.entriesOf(r, m.taken, persistence.EntriesMax, persistence.EntriesBytes)\n\tif planted.On(\"entry-handled-twice\") {\n\t\tentries, more = s.entriesOf(r, m.taken-1, persistence.EntriesMax, persistence.EntriesBytes)\n\t}\n",
		},
		{
			Name: "actions-without-state", Seeds: 1000,
			What: "what an activation starts is stored without its state",
			File: "persistence/memory/machine.go",
			Old:  "\tif a.Version != 0 {\n",
			New:  "\tif a.Version != 0 && (m.version == 0 || !planted.On(\"actions-without-state\")) {\n",
		},
		{
			Name: "entries-out-of-order", Seeds: 1000,
			What: "an activation gets its entries by their instants, and not by their numbers",
			File: "persistence/memory/machine.go",
			Old:  "return cmp.Compare(a.N, b.N) })\n\tall",
			New:  "return cmp.Compare(a.N, b.N) })\n\tif planted.On(\"entries-out-of-order\") {\n\t\tslices.SortFunc(list, func(a, b persistence.MachineEntry) int { return a.At.Compare(b.At) })\n\t}\n\tall",
		},
		{
			Name: "entry-instant-changes", Seeds: 1000,
			What: "the instant of an entry is that at which it is read, so that a replay differs",
			File: "persistence/memory/machine.go",
			Old:  "\te := persistence.MachineEntry{N: t.Entry, At: d.finishedAt}\n",
			New:  "\te := persistence.MachineEntry{N: t.Entry, At: d.finishedAt}\n\tif planted.On(\"entry-instant-changes\") {\n\t\te.At = e.At.AddDate(0, 0, int(r.machine.taken))\n\t}\n",
		},
		{
			Name: "older-program-continues", Seeds: 1000,
			What: "a machine with a state of a newer version is given to pods of an older version of its program",
			File: "persistence/memory/machine.go",
			Old:  "\tr.definition = s.definitions[a.Definition]\n\tr.trigger.Definition = a.Definition\n",
			New:  "\tif !planted.On(\"older-program-continues\") {\n\t\tr.definition = s.definitions[a.Definition]\n\t\tr.trigger.Definition = a.Definition\n\t}\n",
		},
	}
}
