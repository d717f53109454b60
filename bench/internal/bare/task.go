package bare

import (
	"context"
	"encoding/binary"
	"fmt"
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
func graphs(shapes []peer.Shape) (map[peer.Shape]*workflow.Graph, error) {
	all := map[peer.Shape]*workflow.Graph{}
	for _, shape := range shapes {
		var steps []workflow.Step
		var before []workflow.Edge // to every step of the layer before
		for i, width := range shape.Layers() {
			var layer []workflow.Edge
			for n := range width {
				layer = append(layer, workflow.Edge{Parent: len(steps), Kind: workflow.Plain})
				steps = append(steps, workflow.Step{Name: fmt.Sprintf("step-%d-%d", i, n), Kind: workflow.Func, Parents: before})
			}
			before = layer
		}
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
	binary.BigEndian.PutUint16(tail[2:], uint16(last)) // of which an id keeps 14 bits
	return workflow.NewRunID(time.Now(), tail)
}

// jobOf is the number in an id.
func jobOf(id workflow.RunID) int64 {
	tail := [8]byte{2: id[10], 3: id[11], 4: id[12], 5: id[13], 6: id[14], 7: id[15]}
	return int64(binary.BigEndian.Uint64(tail[:]))
}

// lastOf is the last step of the run with an id.
func lastOf(id workflow.RunID) int32 { return int32(binary.BigEndian.Uint16(id[8:]) & (1<<14 - 1)) }
