package planted

// families are mistakes in what child runs and their parents tell each other.
func families() []Plant {
	return []Plant{
		{
			Name: "child-end-untold", Seeds: 1000,
			What: "the end of a child run leaves no word for its parent",
			File: "persistence/memory/family.go",
			Old:  "d.Ended && !parent.IsZero() {",
			New:  "d.Ended && !parent.IsZero() && !planted.On(\"child-end-untold\") {",
		},
		{
			Name: "cancel-not-passed-on", Seeds: 1000,
			What: "a step that waits for a child run is canceled, and the child run is left alone",
			File: "lifecycle/decide.go",
			Old:  "\t\td.stopChild(t.Step)\n",
			New:  "\t\tif !planted.On(\"cancel-not-passed-on\") {\n\t\t\td.stopChild(t.Step)\n\t\t}\n",
		},
		{
			Name: "abandoned-child-canceled", Seeds: 1000,
			What: "a child run that is abandoned is canceled with its parent",
			File: "persistence/memory/family.go",
			Old:  "!of.Run.IsZero() && !r.family.Abandons {",
			New:  "!of.Run.IsZero() && (!r.family.Abandons || planted.On(\"abandoned-child-canceled\")) {",
		},
		{
			Name: "canceled-child-skips", Seeds: 1000,
			What: "a step is skipped whose child run was canceled, as if that had no output",
			File: "lifecycle/decide_child.go",
			Old:  "\tswitch f.State { //nolint:exhaustive // others are no endings\n",
			New: "\tif f.State == Canceled && planted.On(\"canceled-child-skips\") {\n\t\tf.State = Skipped\n\t}\n" +
				"\tswitch f.State { //nolint:exhaustive // others are no endings\n",
		},
		{
			Name: "untold-end-not-looked-for", Seeds: 1000,
			What: "the leader does not look for child runs that have ended without a word to their parents",
			File: "actors/housekeeper_history.go",
			Old:  "\t\tafter := a.history.woken\n",
			New: "\t\tif planted.On(\"untold-end-not-looked-for\") {\n\t\t\ta.history.wakeAt = now.Add(wakeEvery)\n\t\t\treturn false\n\t\t}\n" +
				"\t\tafter := a.history.woken\n",
		},
	}
}

// childRuns are mistakes in how child runs begin, and in what their keys are.
func childRuns() []Plant {
	return []Plant{
		{
			Name: "yield-begins-again", Seeds: 1000,
			What: "a report that is repeated after an unknown outcome begins the child run again",
			File: "lifecycle/decide_facts.go",
			Old:  "\t\tif t.Pod == r.Pod && t.Epoch == r.Epoch+1 && follows(r.Kind, t) {\n",
			New: "\t\tif t.Pod == r.Pod && t.Epoch == r.Epoch+1 && follows(r.Kind, t) {\n\t\t\tif r.Kind == Yielded && planted.On(\"yield-begins-again\") {\n" +
				"\t\t\t\td.out.Begun = append(d.out.Begun, t.Step)\n\t\t\t\treturn Moved\n\t\t\t}\n",
		},
		{
			Name: "yield-while-stopping", Seeds: 1000,
			What: "a step of a run that is asked to stop begins its child run",
			File: "lifecycle/decide_child.go",
			Old:  "\tcase d.run.Canceling, d.stopper(t) != \"\":\n",
			New:  "\tcase (d.run.Canceling || d.stopper(t) != \"\") && !planted.On(\"yield-while-stopping\"):\n",
		},
		{
			Name: "judged-child-begun-again", Seeds: 1000,
			What: "a step whose output conditions look at is executed again when its child run has ended",
			File: "lifecycle/decide_child.go",
			Old:  "\t\tt.Flags |= FlagKept\n",
			New:  "\t\tif !planted.On(\"judged-child-begun-again\") {\n\t\t\tt.Flags |= FlagKept\n\t\t}\n",
		},
		{
			Name: "child-keys-of-its-parent", Seeds: 1000,
			What: "the idempotency keys of a child run are named after the run that begins it, also after a requeue",
			File: "actors/outcome.go",
			Old:  "\tif first := runOf(a.task.GetKeyRun()); !first.IsZero() {\n",
			New:  "\tif first := runOf(a.task.GetKeyRun()); !first.IsZero() && !planted.On(\"child-keys-of-its-parent\") {\n",
		},
		{
			Name: "children-share-keys", Seeds: 1000,
			What: "two child runs of a run have the same idempotency keys",
			File: "persistence/child.go",
			Old:  "[]byte(\"troupe child keys 1\"), keys[:]...), step...))\n",
			New:  "[]byte(\"troupe child keys 1\"), keys[:]...), step...))\n\tif planted.On(\"children-share-keys\") {\n\t\tsum = sha256.Sum256(keys[:])\n\t}\n",
		},
	}
}
