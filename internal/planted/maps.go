package planted

// elements are mistakes in how the elements of a map begin and end.
func elements() []Plant {
	return []Plant{
		{
			Name: "failed-element-stays-open", Seeds: 1000,
			What: "an element that fails keeps its place in the window of its map",
			File: "lifecycle/decide_map.go",
			Old:  "\tm.Open--\n",
			New:  "\tif element.State != Failed || !planted.On(\"failed-element-stays-open\") {\n\t\tm.Open--\n\t}\n",
		},
		{
			Name: "window-too-wide", Seeds: 1000,
			What: "one element more than the window begins",
			File: "lifecycle/decide_map.go",
			Old:  "\tfor m.Open < m.Window && ",
			New:  "\tfor (m.Open < m.Window || m.Open == m.Window && planted.On(\"window-too-wide\")) && ",
		},
		{
			Name: "last-element-unheard", Seeds: 1000,
			What: "a map does not hear of the end of its last element",
			File: "lifecycle/decide_map.go",
			Old:  "\tif !m.failing() {\n",
			New:  "\tif planted.On(\"last-element-unheard\") {\n\t\treturn\n\t}\n\tif !m.failing() {\n",
		},
		{
			Name: "map-gathers-early", Seeds: 1000,
			What: "a map gathers as soon as its last element has begun",
			File: "lifecycle/decide_map.go",
			Old:  "\tif m.Open > 0 || len(",
			New:  "\tif m.Open > 0 && (m.Left > 0 || !planted.On(\"map-gathers-early\")) || len(",
		},
		{
			Name: "element-failure-unhandled", Seeds: 1000,
			What: "an element that fails makes its run fail, whatever its map tolerates",
			File: "lifecycle/decide_map.go",
			Old:  "return t.IsElement() || t.IsSpawned() || Handled(",
			New:  "return t.IsElement() && !planted.On(\"element-failure-unhandled\") || t.IsSpawned() || Handled(",
		},
		{
			Name: "element-dead-letter", Seeds: 1000,
			What: "an element that fails leaves a dead letter",
			File: "lifecycle/decide_task.go",
			Old:  "\tif !t.IsElement() { // its map",
			New:  "\tif !t.IsElement() || planted.On(\"element-dead-letter\") { // its map",
		},
		{
			Name: "broken-map-continues", Seeds: 1000,
			What: "an element that is lost while its map fails is executed again",
			File: "lifecycle/decide_map.go",
			Old:  "owner.State == Waiting && owner.Class == ClassElementFailed {",
			New:  "owner.State == Waiting && owner.Class == ClassElementFailed && !planted.On(\"broken-map-continues\") {",
		},
	}
}

// results are mistakes in what becomes of the outputs of elements.
func results() []Plant {
	return []Plant{
		{
			Name: "results-as-they-ended", Seeds: 1000,
			What: "a map has the results in the order in which the elements ended",
			File: "actors/elements.go",
			Old:  "\tfor i := range rows {\n\t\tt := &rows[i]\n\t\titem := int(lifecycle.ElementOf(t.Name))\n",
			New: "\tfor i := range rows {\n\t\tfor j := i; j > 0 && rows[j].FinishedAt.Before(rows[j-1].FinishedAt) && planted.On(\"results-as-they-ended\"); j-- {\n" +
				"\t\t\trows[j], rows[j-1] = rows[j-1], rows[j]\n\t\t}\n\t}\n" +
				"\tfor i := range rows {\n\t\tt := &rows[i]\n\t\titem := int(lifecycle.ElementOf(t.Name))\n" +
				"\t\tif planted.On(\"results-as-they-ended\") {\n\t\t\titem = e.ended\n\t\t}\n",
		},
		{
			Name: "requeue-executes-all", Seeds: 1000,
			What: "a requeue takes no element over that has completed",
			File: "persistence/memory/maps.go",
			Old:  "!slices.Contains(steps, t.Dynamic.Owner) {",
			New:  "!slices.Contains(steps, t.Dynamic.Owner) || planted.On(\"requeue-executes-all\") {",
		},
		{
			Name: "requeue-keeps-failed", Seeds: 1000,
			What: "a requeue takes elements over that have failed",
			File: "persistence/memory/maps.go",
			Old:  "t.State != lifecycle.Completed || !slices",
			New:  "t.State != lifecycle.Completed && (t.State != lifecycle.Failed || !planted.On(\"requeue-keeps-failed\")) || !slices",
		},
	}
}
