package planted

// inbox are mistakes in what becomes of signals.
func inbox() []Plant {
	return []Plant{
		{
			Name: "signal-not-marked", Seeds: 1000,
			What: "a signal that a step has taken stays in the inbox, for the next one",
			File: "persistence/memory/inbox.go",
			Old:  "\t\tbox[i].taken, box[i].step = true, t.Step\n",
			New:  "\t\tif !planted.On(\"signal-not-marked\") {\n\t\t\tbox[i].taken, box[i].step = true, t.Step\n\t\t}\n",
		},
		{
			Name: "deadline-before-signal", Seeds: 1000,
			What: "a wait ends at its deadline although its signal was stored before and is not delivered yet",
			File: "persistence/memory/leader.go",
			Old:  "\t\t\tfacts[t.run] = s.undeliveredBefore(s.runs[t.run], due)\n",
			New:  "\t\t\tif !planted.On(\"deadline-before-signal\") {\n\t\t\t\tfacts[t.run] = s.undeliveredBefore(s.runs[t.run], due)\n\t\t\t}\n",
		},
		{
			Name: "locked-signal-lost", Seeds: 1000,
			What: "a signal whose run is locked when it is to be delivered is forgotten",
			File: "persistence/memory/inbox.go",
			Old:  "\t\t\tout.Again = lookAgain\n\t\t\treturn false\n",
			New:  "\t\t\tout.Again = lookAgain\n\t\t\treturn planted.On(\"locked-signal-lost\")\n",
		},
		{
			Name: "signal-before-commit", Seeds: 1000,
			What: "a signal of a transaction is stored before that commits",
			File: "persistence/memory/inbox.go",
			Old:  "\town.signals = append(own.signals, draftedSignal{s.submissions, b.now, signal})\n",
			New:  "\town.signals = append(own.signals, draftedSignal{s.submissions, b.now, signal})\n\tif planted.On(\"signal-before-commit\") {\n\t\ts.signaled(own.signals[len(own.signals)-1])\n\t}\n",
		},
	}
}
