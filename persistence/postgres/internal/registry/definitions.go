package registry

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

// LoadDefinitions reads definitions and keeps them in the catalog.
func (s *Registry) LoadDefinitions(ctx context.Context, on pgsql.Querier, numbers []int32, hashes []workflow.Hash) ([]*Definition, error) {
	found, err := s.readDefinitions(ctx, on, numbers, hashes)
	if err != nil || len(found) == 0 {
		return nil, pgerr.Translate(err)
	}
	byNumber := make(map[int32]*Definition, len(found))
	numbers = numbers[:0:0]
	for _, d := range found {
		byNumber[d.Number] = d
		numbers = append(numbers, d.Number)
	}
	if err := s.readSteps(ctx, on, numbers, byNumber); err != nil {
		return nil, pgerr.Translate(err)
	}
	found = slices.DeleteFunc(found, func(d *Definition) bool { return !d.whole() || !d.known() })
	for _, d := range found {
		if err := s.nameQueues(ctx, on, d); err != nil {
			return nil, pgerr.Translate(err)
		}
		d.index()
		s.Catalog.keep(d)
	}
	return found, nil
}

func (s *Registry) readDefinitions(
	ctx context.Context, on pgsql.Querier, numbers []int32, hashes []workflow.Hash,
) ([]*Definition, error) {
	text, args := s.Bind("find_definitions", pgsql.Named{"definitions": numbers, "hashes": hashBytes(hashes)})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Definition, error) {
		d := &Definition{Graph: &workflow.Graph{}}
		var hash []byte
		var policy, class int16
		var hasHandler bool
		err := row.Scan(&d.Number, &hash, &d.Graph.Name, &d.Graph.Output, &policy, &hasHandler, &class, &d.declared, &d.Graph.InputFree)
		copy(d.Graph.Hash[:], hash)
		d.Graph.Policy, d.Graph.Retention = workflow.FailurePolicy(policy), workflow.RetentionClass(class)
		d.later = int16(d.Graph.Policy) != policy
		if hasHandler {
			d.Graph.OnFailure = &workflow.Node{}
		}
		return d, err
	})
}

func (s *Registry) readSteps(ctx context.Context, on pgsql.Querier, numbers []int32, into map[int32]*Definition) error {
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
		signal, child       *string
		output              []string
	)
	_, err = pgx.ForEachRow(rows, []any{
		&number, &n.Name, &kind, &traits, &n.Pending, &children, &parents, &queue, &handler, &sleep, &startTimeout, &fingerprint, &signal,
		&child, &output,
	}, func() error {
		d := into[number]
		node := n
		node.Kind, node.Traits = workflow.StepKind(kind), workflow.Traits(traits)
		node.Children, node.Parents = pgsql.UnpackChildren(children), unpackParents(parents)
		node.Sleep, node.StartTimeout = time.Duration(sleep), time.Duration(startTimeout)
		node.Signal, node.Child = pgsql.OrZero(signal), childSpec(child, output, node.Traits)
		d.later = d.later || int16(node.Kind) != kind
		copy(node.Fingerprint[:], fingerprint)
		q := int16(0)
		if queue != nil {
			q = *queue
		}
		d.Handlers, d.queues = append(d.Handlers, handler), append(d.queues, q)
		if node.Traits.Has(workflow.TraitOnFailure) {
			*d.Graph.OnFailure = node
		} else {
			d.Graph.Nodes = append(d.Graph.Nodes, node)
		}
		return nil
	})
	return err
}

// childSpec returns the run that a step begins.
func childSpec(name *string, output []string, traits workflow.Traits) (spec workflow.ChildSpec) {
	if name != nil && len(output) == 3 {
		spec = workflow.ChildSpec{
			Workflow: *name, Abandons: traits.Has(workflow.TraitAbandons),
			Output: workflow.OutputOf{Workflow: output[0], Step: output[1], Signal: output[2] == "signal"},
		}
	}
	return spec
}

// whole reports whether all steps of a definition were read: some may have been deleted,
// or another pod is about to store them.
func (d *Definition) whole() bool {
	want := d.declared
	if d.Graph.OnFailure != nil {
		want++
	}
	return int32(len(d.Graph.Nodes)) == d.declared && int32(len(d.Handlers)) == want
}

// known reports whether this version knows all that a definition consists of. One that a
// later version stored is as good as not there: its runs are passed over.
func (d *Definition) known() bool { return !d.later && d.Graph.Known() }

// nameQueues writes the names of queues into a graph that was read.
func (s *Registry) nameQueues(ctx context.Context, on pgsql.Querier, d *Definition) error {
	for step, number := range d.queues {
		if number == 0 {
			continue
		}
		name, err := s.NameQueue(ctx, on, number)
		if err != nil {
			return err
		}
		d.Node(int32(step)).Queue = name
	}
	return nil
}

// index fills in what follows from the graph.
func (d *Definition) index() {
	d.steps = make(map[string]int32, len(d.Graph.Nodes))
	d.Protocol = persistence.ProtocolOf(d.Graph)
	d.Plain = d.Protocol == 0 // or living pods may not know it
	for i := range d.Graph.Nodes {
		n := &d.Graph.Nodes[i]
		d.steps[n.Name] = int32(i)
		if n.Traits.Has(workflow.TraitSpawned) {
			continue
		}
		d.Count++
		if n.Pending > 0 {
			continue
		}
		d.Roots = append(d.Roots, int32(i))
		if n.Kind != workflow.Func || n.StartTimeout > 0 {
			d.Plain = false
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

// Tasks returns the rows that a run of the graph starts from.
func (d *Definition) Tasks() []lifecycle.Task {
	tasks := make([]lifecycle.Task, d.Count) // what a machine may start is behind it
	for i := range tasks {
		tasks[i] = lifecycle.NewTask(int32(i), &d.Graph.Nodes[i])
	}
	return tasks
}

// Edges resolves the names of children. A child that this version of the
// workflow does not have is dropped.
func (d *Definition) Edges(results []persistence.EdgeResult) []lifecycle.EdgeFlag {
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

// NewRun returns how a run of a trigger starts.
func (d *Definition) NewRun(edges []persistence.EdgeResult) lifecycle.Run {
	core := lifecycle.NewRun(d.Graph)
	core.Slow = core.Slow || len(edges) > 0
	return core
}

// Outdated returns the numbers of those definitions that a living pod does not know, because it
// is of an older version. The pods are asked only if there may be such.
func (s *Registry) Outdated(ctx context.Context, on pgsql.Querier, definitions []*Definition) (map[int32]bool, error) {
	var newest int16
	for _, d := range definitions {
		newest = max(newest, d.Protocol)
	}
	if newest == 0 {
		return nil, nil
	}
	text, args := s.Bind("oldest_protocol", pgsql.Named{})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	oldest, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[*int16])
	if err != nil || oldest == nil || *oldest >= newest {
		return nil, err
	}
	held := map[int32]bool{}
	for _, d := range definitions {
		if *oldest < d.Protocol {
			held[d.Number] = true
		}
	}
	return held, nil
}
