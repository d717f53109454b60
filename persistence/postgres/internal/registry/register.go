package registry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// RegisterBatch is how many definitions are registered at a time: pods that start together
// with hundreds of them take turns.
const RegisterBatch = 25

// registerPatience is how long a pod waits for its turn, less than a call may take.
const registerPatience = "25s"

// RegisterDefinitions implements persistence.Registry. Definitions that are stored already
// cost one statement together, and those that are not cost it a few statements a batch.
func (s *Registry) RegisterDefinitions(ctx context.Context, graphs []*workflow.Graph, queues []string) ([][]int32, error) {
	var stored map[workflow.Hash]numbered
	err := s.patiently(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		stored, err = s.findNumbers(ctx, tx, graphs)
		return err
	})
	if err != nil {
		return nil, err
	}
	names := queuesOf(graphs, queues)
	changed := slices.DeleteFunc(slices.Clone(graphs), func(g *workflow.Graph) bool { return stored[g.Hash].registered })
	parts := slices.Collect(slices.Chunk(changed, RegisterBatch))
	if len(parts) == 0 {
		parts = append(parts, nil)
	}
	for _, part := range parts {
		own, err := s.registerPart(ctx, part, names)
		if err != nil {
			return nil, err
		}
		maps.Copy(stored, own)
	}
	numbers := make([][]int32, len(graphs))
	for i, g := range graphs {
		numbers[i] = stored[g.Hash].handlers
	}
	s.Catalog.register(graphs, numbers, queues)
	return numbers, s.LoadQueues(ctx)
}

// queuesOf returns the names of the queues that graphs and pods name, each once.
func queuesOf(graphs []*workflow.Graph, queues []string) []string {
	names := map[string]bool{}
	for _, q := range queues {
		names[QueueName(q)] = true
	}
	for _, g := range graphs {
		for _, n := range nodesOf(g) {
			names[QueueName(n.Queue)] = true
		}
	}
	return slices.AppendSeq([]string{}, maps.Keys(names))
}

// nodesOf returns the steps of a graph as they are stored: the failure handler is the last.
func nodesOf(g *workflow.Graph) []*workflow.Node {
	nodes := make([]*workflow.Node, 0, len(g.Nodes)+1)
	for i := range g.Nodes {
		nodes = append(nodes, &g.Nodes[i])
	}
	if g.OnFailure != nil {
		nodes = append(nodes, g.OnFailure)
	}
	return nodes
}

// numbered is how a stored definition is numbered.
type numbered struct {
	handlers   []int32 // by step, the failure handler last
	registered bool    // nothing of it is left to be stored
}

// findNumbers returns how graphs are numbered that are stored with all of their steps.
func (s *Registry) findNumbers(ctx context.Context, on pgsql.Querier, graphs []*workflow.Graph) (map[workflow.Hash]numbered, error) {
	ctx, cancel := pgerr.Bounded(ctx)
	defer cancel()
	hashes, inputFree := make([][]byte, len(graphs)), make([]bool, len(graphs))
	for i, g := range graphs {
		hashes[i], inputFree[i] = g.Hash[:], g.InputFree
	}
	found := make(map[workflow.Hash]numbered, len(graphs))
	text, args := s.Bind("find_numbers", pgsql.Named{"hashes": hashes, "input_free": inputFree})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return nil, pgerr.Translate(err)
	}
	var hash []byte
	var n numbered
	_, err = pgx.ForEachRow(rows, []any{&hash, &n.handlers, &n.registered}, func() error {
		found[workflow.Hash(hash)] = numbered{handlers: slices.Clone(n.handlers), registered: n.registered}
		return nil
	})
	if err != nil {
		return nil, pgerr.Translate(err)
	}
	return found, s.findOlder(ctx, on, graphs, found)
}

// notStored is the step of handlers in stepRows that definitions have none of.
const notStored = -1

// findOlder adds the numbers of the handlers of earlier versions of machines, behind the others of
// their graphs. No definition has to be there that says them.
func (s *Registry) findOlder(ctx context.Context, on pgsql.Querier, graphs []*workflow.Graph, found map[workflow.Hash]numbered) error {
	var of []*workflow.Graph
	var workflows, steps []string
	var fingerprints [][]byte
	for _, g := range graphs {
		if _, is := found[g.Hash]; !is {
			continue
		}
		for _, fingerprint := range g.Older {
			of, workflows, steps = append(of, g), append(workflows, g.Name), append(steps, g.Nodes[0].Name)
			fingerprints = append(fingerprints, fingerprint[:])
		}
	}
	if len(of) == 0 {
		return nil
	}
	text, args := s.Bind("find_older", pgsql.Named{"workflows": workflows, "steps": steps, "fingerprints": fingerprints})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return pgerr.Translate(err)
	}
	var ord, number int32
	_, err = pgx.ForEachRow(rows, []any{&ord, &number}, func() error {
		hash := of[ord-1].Hash
		n := found[hash]
		n.handlers, n.registered = append(n.handlers, number), n.registered && number != 0
		found[hash] = n
		return nil
	})
	return pgerr.Translate(err)
}

// registerPart registers some definitions in one transaction, and returns how they are
// numbered.
func (s *Registry) registerPart(ctx context.Context, graphs []*workflow.Graph, queues []string) (stored map[workflow.Hash]numbered, err error) {
	err = s.patiently(ctx, func(ctx context.Context, tx pgx.Tx) error {
		b := s.NewBatch()
		b.Add("lock_catalog", pgsql.Named{"key": s.LockKey("catalog")})
		b.Add("insert_queues", pgsql.Named{"names": queues})
		if err := pgsql.Send(ctx, tx, b); err != nil {
			return err
		}
		if err := s.loadQueuesIn(ctx, tx); err != nil || len(graphs) == 0 {
			return err
		}
		changed, err := s.registerGraphs(ctx, tx, graphs)
		if err != nil {
			return err
		}
		if err := s.renumberTasks(ctx, tx, changed); err != nil {
			return err
		}
		if stored, err = s.findNumbers(ctx, tx, graphs); err != nil {
			return err
		}
		for _, g := range graphs {
			if stored[g.Hash].handlers == nil {
				return fmt.Errorf("%w: steps of workflow %s were removed while it was registered: start again", persistence.ErrUnavailable, g.Name)
			}
		}
		return nil
	})
	return stored, err
}

// patiently writes in a transaction that waits for locks for as long as pods wait for their
// turn.
func (s *Registry) patiently(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	err := s.Write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.Exec(ctx, tx, "set_local", pgsql.Named{"names": []string{"lock_timeout"}, "values": []string{registerPatience}}); err != nil {
			return err
		}
		return do(ctx, tx)
	})
	if errors.Is(err, pgerr.ErrLockTimeout) {
		err = fmt.Errorf("another pod registers workflows, or the tables of definitions are locked: %w", err)
	}
	return err
}

// registerGraphs stores what is missing of graphs. It returns the numbers of the
// Definitions of which steps were.
func (s *Registry) registerGraphs(ctx context.Context, tx pgx.Tx, graphs []*workflow.Graph) (changed []int32, err error) {
	b := s.NewBatch()
	for _, g := range graphs {
		b.Add("insert_definition", pgsql.Named{
			"number": DefinitionNumber(g.Hash), "probes": definitionProbes,
			"hash": g.Hash[:], "name": g.Name, "output": g.Output, "policy": int16(g.Policy), "steps": g.Steps(), "declared": int32(len(g.Nodes)),
			"sinks": g.Sinks(), "slow": lifecycle.NeedsSlowPath(g), "has_handler": g.OnFailure != nil,
			"class": int16(g.Retention), "input_free": g.InputFree,
		})
	}
	handlers, steps := s.stepRows(graphs)
	b.Add("insert_handlers", handlers)
	b.Add("insert_definition_steps", steps).Query(func(rows pgx.Rows) error {
		changed, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		return err
	})
	err = pgsql.Send(ctx, tx, b)
	return changed, err
}

// renumberTasks gives the tasks of definitions that have just been stored the numbers of
// these: the rows that gave them their own may have been deleted.
func (s *Registry) renumberTasks(ctx context.Context, tx pgx.Tx, definitions []int32) error {
	if len(definitions) == 0 {
		return nil
	}
	b := s.NewBatch()
	b.Queue("set local enable_hashjoin = on") // the rows of a queue have no index by run
	b.Add("renumber_tasks", pgsql.Named{"definitions": definitions})
	return pgsql.Send(ctx, tx, b)
}

// definitionProbes is how many numbers are tried for a definition.
const definitionProbes = 1000

// DefinitionNumber returns the number that a definition gets if it is free. It
// follows from the content, so that a database that lost a definition does not
// give its number to another one that some store may still remember.
func DefinitionNumber(hash workflow.Hash) int32 {
	return int32(binary.BigEndian.Uint32(hash[:])%(math.MaxInt32-definitionProbes)) + 1
}

// stepRows returns the steps of graphs as insert_handlers and insert_definition_steps take
// them: an owner is the place of a graph, from 1.
func (s *Registry) stepRows(graphs []*workflow.Graph) (handlers, steps pgsql.Named) {
	var (
		hashes, fingerprints                [][]byte
		workflows, names, children, parents []string
		kinds, traits, queues               []int16
		owners, nths, numbers, pending      []int32
		sleeps, timeouts                    []int64
		signals, runs, outputsOf, outputs   []string
		outputSignals                       []bool
	)
	for i, g := range graphs {
		hashes = append(hashes, g.Hash[:])
		nodes := nodesOf(g)
		first := make([]int32, len(nodes))
		copy(first, s.Catalog.firstNumbers(g.Hash))
		numbers = append(numbers, first...)
		for nth, n := range nodes {
			queue := int16(0)
			if n.Queue != "" {
				queue = s.Catalog.QueueNumber(n.Queue)
			}
			owners, nths, workflows = append(owners, int32(i+1)), append(nths, int32(nth)), append(workflows, g.Name)
			names, fingerprints = append(names, n.Name), append(fingerprints, n.Fingerprint[:])
			kinds, traits = append(kinds, int16(n.Kind)), append(traits, int16(n.Traits))
			pending, queues = append(pending, n.Pending), append(queues, queue)
			children, parents = append(children, arrayText(pgsql.PackChildren(n.Children))), append(parents, arrayText(n.Parents))
			sleeps, timeouts = append(sleeps, int64(n.Sleep)), append(timeouts, int64(n.StartTimeout))
			signals, runs, outputsOf = append(signals, n.Signal), append(runs, n.Child.Workflow), append(outputsOf, n.Child.Output.Workflow)
			outputs, outputSignals = append(outputs, n.Child.Output.Step), append(outputSignals, n.Child.Output.Signal)
		}
	}
	steps = pgsql.Named{
		"hashes": hashes, "owners": owners, "nths": nths, "workflows": workflows, "steps": names, "fingerprints": fingerprints,
		"kinds": kinds, "traits": traits, "pending": pending, "children": children, "parents": parents, "queues": queues,
		"sleeps": sleeps, "start_timeouts": timeouts, "signals": signals, "child_runs": runs, "outputs_of": outputsOf,
		"output_steps": outputs, "output_signals": outputSignals,
	}
	for i, g := range graphs { // behind those of steps
		first := s.Catalog.firstNumbers(g.Hash)
		first = first[min(len(first), len(nodesOf(g))):]
		for nth, fingerprint := range g.Older {
			owners, nths, workflows = append(owners, int32(i+1)), append(nths, notStored), append(workflows, g.Name)
			names, fingerprints = append(names, g.Nodes[0].Name), append(fingerprints, fingerprint[:])
			number := int32(0)
			if nth < len(first) {
				number = first[nth]
			}
			numbers = append(numbers, number)
		}
	}
	handlers = pgsql.Named{
		"hashes": hashes, "owners": owners, "nths": nths, "workflows": workflows, "steps": names, "fingerprints": fingerprints,
		"numbers": numbers,
	}
	return handlers, steps
}

// arrayText writes numbers as the text of an array.
func arrayText(numbers []int32) string {
	var text strings.Builder
	text.WriteByte('{')
	for i, n := range numbers {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(strconv.Itoa(int(n)))
	}
	text.WriteByte('}')
	return text.String()
}
