package planted

// pods are mistakes in leases, stops, wakes and leaders.
func pods() []Plant {
	return []Plant{
		{
			Name: "no-sweep", Seeds: 1000,
			What: "wakes are trusted: no pod looks at the tables without one",
			File: "actors/feed.go",
			Old:  "func (a *feed) sweep() {\n",
			New:  "func (a *feed) sweep() {\n\tif planted.On(\"no-sweep\") {\n\t\treturn\n\t}\n",
		},
		{
			Name: "await-never-swept", Seeds: 1000,
			What: "who waits for the end of a run hears of it by a wake, or never",
			File: "actors/feed.go",
			Old:  "\ta.lookAtEnds()\n\ta.armSweep()\n",
			New:  "\tif !planted.On(\"await-never-swept\") {\n\t\ta.lookAtEnds()\n\t}\n\ta.armSweep()\n",
		},
		{
			Name: "lease-by-the-pods-clock", Seeds: 2000,
			What: "the end of the lease is an instant of the database, compared with the pod's clock",
			File: "actors/pulse.go",
			Old:  "\ta.carryover.renewed = a.sent\n",
			New:  "\ta.carryover.renewed = a.sent\n\tif planted.On(\"lease-by-the-pods-clock\") {\n\t\ta.carryover.renewed = value.Now\n\t}\n",
		},
		{
			Name: "contexts-outlive-the-lease", Seeds: 1000,
			What: "a pod whose lease may have run out still executes",
			File: "actors/runs.go",
			Old:  "\t\ta.endAll(messages.EndCause_END_CAUSE_LEASE_LOST)\n",
			New:  "\t\tif !planted.On(\"contexts-outlive-the-lease\") {\n\t\t\ta.endAll(messages.EndCause_END_CAUSE_LEASE_LOST)\n\t\t}\n",
		},
		{
			Name: "stop-without-grace", Seeds: 1000, Classes: []string{"pod-stop", "step-slow"},
			What: "a stop gives up what is executed and what is about to be recorded",
			File: "actors/pod_stop.go",
			Old:  "\tif a.stage == stage {\n\t\ta.advance(stage + 1)\n",
			New: "\tif a.stage == stage && stage == stageClaims && planted.On(\"stop-without-grace\") {\n\t\ta.advance(stageLeave)\n\t\treturn\n\t}\n" +
				"\tif a.stage == stage {\n\t\ta.advance(stage + 1)\n",
		},
		{
			Name: "earlier-timer-ignored", Seeds: 1000,
			What: "the leader sleeps until the timer that it knew of, whatever was set since",
			File: "actors/timekeeper.go",
			Old:  "func (a *timekeeper) onTimerSet(at time.Time) {\n",
			New:  "func (a *timekeeper) onTimerSet(at time.Time) {\n\tif planted.On(\"earlier-timer-ignored\") && !at.IsZero() {\n\t\treturn\n\t}\n",
		},
	}
}
