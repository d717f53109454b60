package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// loadDefinitions reads definitions and keeps them in the catalog.
func (s *Registry) loadDefinitions(ctx context.Context, on pgsql.Querier, numbers []int32, hashes []workflow.Hash) ([]*definition, error) {
	found, err := s.readDefinitions(ctx, on, numbers, hashes)
	if err != nil || len(found) == 0 {
		return nil, pgerr.Translate(err)
	}
	byNumber := make(map[int32]*definition, len(found))
	numbers = numbers[:0:0]
	for _, d := range found {
		byNumber[d.number] = d
		numbers = append(numbers, d.number)
	}
	if err := s.readSteps(ctx, on, numbers, byNumber); err != nil {
		return nil, pgerr.Translate(err)
	}
	found = slices.DeleteFunc(found, func(d *definition) bool { return !d.whole() || !d.known() })
	for _, d := range found {
		if err := s.nameQueues(ctx, on, d); err != nil {
			return nil, pgerr.Translate(err)
		}
		d.index()
		s.catalog.keep(d)
	}
	return found, nil
}

func (s *Registry) readDefinitions(
	ctx context.Context, on pgsql.Querier, numbers []int32, hashes []workflow.Hash,
) ([]*definition, error) {
	text, args := s.Bind("find_definitions", pgsql.Named{"definitions": numbers, "hashes": hashBytes(hashes)})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*definition, error) {
		d := &definition{graph: &workflow.Graph{}}
		var hash []byte
		var policy, class int16
		var hasHandler bool
		err := row.Scan(&d.number, &hash, &d.graph.Name, &d.graph.Output, &policy, &hasHandler, &class, &d.count, &d.graph.InputFree)
		copy(d.graph.Hash[:], hash)
		d.graph.Policy, d.graph.Retention = workflow.FailurePolicy(policy), workflow.RetentionClass(class)
		d.later = int16(d.graph.Policy) != policy
		if hasHandler {
			d.graph.OnFailure = &workflow.Node{}
		}
		return d, err
	})
}

func (s *Registry) readSteps(ctx context.Context, on pgsql.Querier, numbers []int32, into map[int32]*definition) error {
	text, args := s.Bind("find_definition_steps", pgsql.Named{"definitions": numbers})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	var (
		number, handler     int32
		n                   workflow.Node
		kind, traits        int16
		children, parents   []int32
		queue               *int16
		sleep, startTimeout int64
		fingerprint         []byte
	)
	_, err = pgx.ForEachRow(rows, []any{
		&number, &n.Name, &kind, &traits, &n.Pending, &children, &parents, &queue, &handler, &sleep, &startTimeout, &fingerprint,
	}, func() error {
		d := into[number]
		node := n
		node.Kind, node.Traits = workflow.StepKind(kind), workflow.Traits(traits)
		node.Children, node.Parents = pgsql.UnpackChildren(children), unpackParents(parents)
		node.Sleep, node.StartTimeout = time.Duration(sleep), time.Duration(startTimeout)
		d.later = d.later || int16(node.Kind) != kind || int16(node.Traits) != traits
		copy(node.Fingerprint[:], fingerprint)
		q := int16(0)
		if queue != nil {
			q = *queue
		}
		d.handlers, d.queues = append(d.handlers, handler), append(d.queues, q)
		if node.Traits.Has(workflow.TraitOnFailure) {
			*d.graph.OnFailure = node
		} else {
			d.graph.Nodes = append(d.graph.Nodes, node)
		}
		return nil
	})
	return err
}

// whole reports whether all steps of a definition were read: some may have been deleted,
// or another pod is about to store them.
func (d *definition) whole() bool {
	want := d.count
	if d.graph.OnFailure != nil {
		want++
	}
	return int32(len(d.graph.Nodes)) == d.count && int32(len(d.handlers)) == want
}

// known reports whether this version knows all that a definition consists of. One that a
// later version stored is as good as not there: its runs are passed over.
func (d *definition) known() bool { return !d.later && d.graph.Known() }

// nameQueues writes the names of queues into a graph that was read.
func (s *Registry) nameQueues(ctx context.Context, on pgsql.Querier, d *definition) error {
	for step, number := range d.queues {
		if number == 0 {
			continue
		}
		name, err := s.NameQueue(ctx, on, number)
		if err != nil {
			return err
		}
		d.node(int32(step)).Queue = name
	}
	return nil
}

// index fills in what follows from the graph.
func (d *definition) index() {
	d.steps = make(map[string]int32, len(d.graph.Nodes))
	d.plain = true
	for i := range d.graph.Nodes {
		n := &d.graph.Nodes[i]
		d.steps[n.Name] = int32(i)
		if n.Pending > 0 {
			continue
		}
		d.roots = append(d.roots, int32(i))
		if n.Kind != workflow.Func || n.StartTimeout > 0 {
			d.plain = false
		}
	}
}

func unpackParents(parents []int32) []int32 {
	if len(parents) == 0 {
		return nil
	}
	return append([]int32(nil), parents...)
}

func hashBytes(hashes []workflow.Hash) [][]byte {
	all := make([][]byte, len(hashes))
	for i := range hashes {
		all[i] = hashes[i][:]
	}
	return all
}

// tasks returns the rows that a run of the graph starts from.
func (d *definition) tasks() []lifecycle.Task {
	tasks := make([]lifecycle.Task, len(d.graph.Nodes))
	for i := range tasks {
		tasks[i] = lifecycle.NewTask(int32(i), &d.graph.Nodes[i])
	}
	return tasks
}

// edges resolves the names of children. A child that this version of the
// workflow does not have is dropped.
func (d *definition) edges(results []persistence.EdgeResult) []lifecycle.EdgeFlag {
	var flags []lifecycle.EdgeFlag
	for _, e := range results {
		if child, ok := d.steps[e.Child]; ok {
			flags = append(flags, lifecycle.EdgeFlag{
				Child: child, Flags: e.Flags, Error: lifecycle.CleanText(e.Error), WakeAt: e.WakeAt,
			})
		}
	}
	return flags
}

// newRun returns how a run of a trigger starts.
func (d *definition) newRun(edges []persistence.EdgeResult) lifecycle.Run {
	core := lifecycle.NewRun(d.graph)
	core.Slow = core.Slow || len(edges) > 0
	return core
}
