package bare

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/troupe-dev/troupe/bench/internal/peer"
	"github.com/troupe-dev/troupe/workflow"
)

// task is one granted step.
type task struct {
	run   workflow.RunID
	step  int32
	epoch int64
}

// tables is where the loop's statements go.
type tables interface {
	trigger(ctx context.Context, shape peer.Shape, runs []workflow.RunID, inputs [][]byte) error
	claim(ctx context.Context, limit int) ([]task, error)
	// record completes tasks; it returns the children that it granted.
	record(ctx context.Context, tasks []task, outputs [][]byte) ([]task, error)
	close()
}

// graphs are the workflows, by shape.
func graphs() (map[peer.Shape]*workflow.Graph, error) {
	edges := func(parents ...int) []workflow.Edge {
		list := make([]workflow.Edge, len(parents))
		for i, p := range parents {
			list[i] = workflow.Edge{Parent: p, Kind: workflow.Plain}
		}
		return list
	}
	step := func(name string, parents ...int) workflow.Step {
		return workflow.Step{Name: name, Kind: workflow.Func, Parents: edges(parents...)}
	}
	all := map[peer.Shape]*workflow.Graph{}
	for shape, steps := range map[peer.Shape][]workflow.Step{
		peer.Single:  {step("only")},
		peer.Diamond: {step("a"), step("b", 0), step("c", 0), step("d", 1, 2)},
	} {
		graph, err := workflow.NewGraph(&workflow.Definition{
			Name: string(shape), Policy: workflow.FailFast, Output: len(steps) - 1, Steps: steps,
		})
		if err != nil {
			return nil, err
		}
		all[shape] = graph
	}
	return all, nil
}

// newRunID makes an id that sorts by time and says which job it is of, so that
// the loop needs no table of its own.
func newRunID(job int64, last int32) workflow.RunID {
	var tail [10]byte
	binary.BigEndian.PutUint64(tail[2:], uint64(job))
	id := workflow.NewRunID(time.Now(), tail)
	id[9] = byte(last)
	return id
}

// jobOf is the number in an id.
func jobOf(id workflow.RunID) int64 {
	tail := [8]byte{2: id[10], 3: id[11], 4: id[12], 5: id[13], 6: id[14], 7: id[15]}
	return int64(binary.BigEndian.Uint64(tail[:]))
}

// lastOf is the last step of the run with an id.
func lastOf(id workflow.RunID) int32 { return int32(id[9]) }
