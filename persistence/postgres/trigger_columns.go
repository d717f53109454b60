package postgres

import (
	"encoding/json"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
)

// runColumns are rows of insert_runs, by column.
type runColumns struct {
	runs                                   pgsql.UUIDs
	definitions, groups, remaining, events []int32
	queues, states                         []int16
	slow                                   []bool
	tenants, keys, origins, traces         []string
	labels                                 []*string
	inputs                                 [][]byte
}

func newRunColumns(n int) *runColumns {
	return &runColumns{
		runs: make(pgsql.UUIDs, 0, n), definitions: make([]int32, 0, n), groups: make([]int32, 0, n), remaining: make([]int32, 0, n),
		events: make([]int32, 0, n), queues: make([]int16, 0, n), states: make([]int16, 0, n), slow: make([]bool, 0, n),
		tenants: make([]string, 0, n), keys: make([]string, 0, n), origins: make([]string, 0, n), traces: make([]string, 0, n),
		labels: make([]*string, 0, n), inputs: make([][]byte, 0, n),
	}
}

// add adds the run of a trigger. A plain one has started once it is stored.
func (c *runColumns) add(t *persistence.Trigger, d *registry.Definition, queue int16, group int32, plain bool) error {
	core := d.NewRun(t.Edges)
	if plain {
		core.State, core.Events = lifecycle.Running, core.Events+1
	}
	labels, err := pgsql.LabelText(t.Labels)
	if err != nil {
		return err
	}
	c.runs, c.definitions, c.groups = append(c.runs, t.Run), append(c.definitions, d.Number), append(c.groups, group)
	c.remaining, c.events = append(c.remaining, core.Remaining), append(c.events, int32(core.Events))
	c.queues, c.states, c.slow = append(c.queues, queue), append(c.states, int16(core.State)), append(c.slow, core.Slow)
	c.tenants, c.keys = append(c.tenants, t.Tenant), append(c.keys, t.Key)
	c.origins, c.traces = append(c.origins, t.Origin), append(c.traces, t.TraceContext)
	c.labels, c.inputs = append(c.labels, labels), append(c.inputs, t.Input)
	return nil
}

func (c *runColumns) named(now time.Time) pgsql.Named {
	return pgsql.Named{
		"runs": c.runs, "definitions": c.definitions, "groups": c.groups, "remaining": c.remaining, "events": c.events,
		"queues": c.queues, "states": c.states, "slow": c.slow, "tenants": c.tenants, "keys": c.keys, "origins": c.origins,
		"traces": c.traces, "labels": c.labels, "inputs": c.inputs, "now": pgsql.Instant(now),
	}
}

// keyColumns are rows of insert_keys, by column.
type keyColumns struct {
	tenants, workflows, keys []string
	hashes                   [][]byte
	runs                     pgsql.UUIDs
}

func (c *keyColumns) add(t *persistence.Trigger) {
	c.tenants, c.workflows, c.keys = append(c.tenants, t.Tenant), append(c.workflows, t.Workflow), append(c.keys, t.Key)
	c.hashes, c.runs = append(c.hashes, t.InputHash[:]), append(c.runs, t.Run)
}

func (c *keyColumns) named() pgsql.Named {
	return pgsql.Named{"tenants": c.tenants, "workflows": c.workflows, "keys": c.keys, "hashes": c.hashes, "runs": c.runs}
}

// encodeEdges writes what conditions on the input say, for the intake table.
func encodeEdges(edges []persistence.EdgeResult) ([]byte, error) {
	if len(edges) == 0 {
		return nil, nil
	}
	return json.Marshal(edges)
}

// queueSubmission asks the pods to begin the run of a trigger.
func queueSubmission(b *pgsql.Batch, t *persistence.Trigger) error {
	edges, err := encodeEdges(t.Edges)
	if err == nil {
		b.Add("insert_intake", pgsql.Named{"run": [16]byte(t.Run), "at": pgsql.Instant(t.At), "edges": edges})
	}
	return err
}

// decodeEdges undoes encodeEdges.
func decodeEdges(encoded []byte) ([]persistence.EdgeResult, error) {
	if len(encoded) == 0 {
		return nil, nil
	}
	var edges []persistence.EdgeResult
	err := json.Unmarshal(encoded, &edges)
	return edges, err
}
