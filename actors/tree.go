package actors

import (
	"fmt"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
)

// restartKind is the reaction of a supervisor to a failed child.
type restartKind string

const (
	restartAlways restartKind = "restart" // with backoff, until its intensity is used up
	stopOnFailure restartKind = "stop"    // its parent takes the consequences
	neverRestart  restartKind = "root"    // protoactor restarts it; too often, and the pod has ended
)

// member is one row of the tree.
type member struct {
	name      string
	parent    string // "": none
	many      bool   // one per task; the name stands for all
	restart   restartKind
	intensity lifecycle.RestartIntensity
}

// tree is the whole supervision tree. Children start in this order and stop in
// the reverse one. Restarts as OTP counts them: a child may be restarted 5
// times within 30 s, after 0, 0.1, 0.2, 0.4 and 0.8 s; the sixth failure is
// its supervisor's. Below the leader intensities multiply: timekeeper or
// housekeeper × leader = (5 + 1) × (5 + 1) = 36 starts at most, in not less
// than 9 s, before the pod gives up. A run actor is never restarted, so its
// failures spend nothing but losses of its task (MaxLost).
//
// While the pulse waits for its restart the lease is not renewed, and its end goes
// unnoticed, so its pauses are 0, 10, 20, 40 and 80 ms: a pod whose pulse cannot
// be mended has handed its tasks back long before its lease ends.
func tree() []member {
	leaf := lifecycle.RestartIntensity{Max: 5, Period: 30 * time.Second, First: 100 * time.Millisecond, Cap: 5 * time.Second}
	vital := leaf
	vital.First = 10 * time.Millisecond
	return []member{
		{name: podName, restart: neverRestart},
		{name: "journal", parent: podName, restart: restartAlways, intensity: leaf},
		{name: "runs", parent: podName, restart: restartAlways, intensity: leaf},
		{name: runName, parent: "runs", many: true, restart: stopOnFailure},
		{name: "pulse", parent: podName, restart: restartAlways, intensity: vital},
		{name: "claimer", parent: podName, restart: restartAlways, intensity: leaf},
		{name: "intake", parent: podName, restart: restartAlways, intensity: leaf},
		{name: "leader", parent: podName, restart: restartAlways, intensity: leaf},
		{name: "timekeeper", parent: "leader", restart: restartAlways, intensity: leaf},
		{name: "housekeeper", parent: "leader", restart: restartAlways, intensity: leaf},
		{name: "feed", parent: podName, restart: restartAlways, intensity: leaf},
	}
}

const (
	podName = "pod"
	runName = "run"
)

// childrenOf returns the declared children of an actor in the order of their
// start.
func childrenOf(parent string) []member {
	var children []member
	for _, m := range tree() {
		if m.parent == parent && !m.many {
			children = append(children, m)
		}
	}
	return children
}

// memberNamed returns the row of an actor. A run actor has the name of its task, which
// is not in the table.
func memberNamed(name string) member {
	for _, m := range tree() {
		if m.name == name {
			return m
		}
	}
	return member{name: runName, parent: "runs", many: true, restart: stopOnFailure}
}

// SupervisionDiagram draws the tree.
func SupervisionDiagram() string {
	var text strings.Builder
	text.WriteString("Printed from actors/tree.go. Children start from top to bottom and stop in reverse.\n\n")
	text.WriteString(podName + "\n")
	drawChildren(&text, podName, "")
	return text.String()
}

func drawChildren(text *strings.Builder, parent, indent string) {
	var children []member
	for _, m := range tree() {
		if m.parent == parent {
			children = append(children, m)
		}
	}
	for i, m := range children {
		branch, below := "├── ", "│   "
		if i == len(children)-1 {
			branch, below = "└── ", "    "
		}
		name, rule := m.name, string(m.restart)
		if m.many {
			name += " (one per task)"
		}
		if m.restart == restartAlways {
			rule = fmt.Sprintf("restart, at most %d in %v", m.intensity.Max, m.intensity.Period)
		}
		fmt.Fprintf(text, "%-32s %s\n", indent+branch+name, rule)
		drawChildren(text, m.name, indent+below)
	}
}
