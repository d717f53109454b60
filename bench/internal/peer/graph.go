package peer

import (
	"slices"
	"strings"
)

const (
	chainSteps = 100
	fanOutTo   = 1000

	machineSteps, machineOutput = 20, 100

	// Children is how many child runs a job of the shape Parent has.
	Children = 200
)

var layers = map[Shape][]int{
	Single: {1}, Diamond: {1, 2, 1}, Chain: slices.Repeat([]int{1}, chainSteps), FanOut: {1, fanOutTo, 1},
	Machine: slices.Repeat([]int{1}, machineSteps),
}

// Output is what each step of a job gives.
func (s Shape) Output() string {
	if s == Machine {
		return strings.Repeat("x", machineOutput)
	}
	return "x"
}

// Layers are how many steps each layer of a job has: a step waits for all of the
// layer before. One of two neighbours has a single step, as have the first and
// the last. It is nil where the shape has branches or waits. It is not to be changed.
func (s Shape) Layers() []int { return layers[s] }

// Steps counts the steps in the layers.
func (s Shape) Steps() int {
	sum := 0
	for _, width := range s.Layers() {
		sum += width
	}
	return sum
}
