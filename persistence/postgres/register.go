package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// registerBatch is how many definitions are registered at a time: pods that start together
// with hundreds of them take turns.
const registerBatch = 25

// registerPatience is how long a pod waits for its turn, less than a call may take.
const registerPatience = "25s"

// RegisterDefinitions implements persistence.Registry.
func (s *Store) RegisterDefinitions(ctx context.Context, graphs []*workflow.Graph, queues []string) ([][]int32, error) {
	var numbers [][]int32
	parts := slices.Collect(slices.Chunk(graphs, registerBatch))
	if len(parts) == 0 {
		parts = append(parts, nil)
	}
	for _, part := range parts {
		own, err := s.registerPart(ctx, part, queues)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, own...)
	}
	s.catalog.register(graphs, numbers, queues)
	return numbers, s.loadQueues(ctx)
}

// registerPart registers some definitions in one transaction.
func (s *Store) registerPart(ctx context.Context, graphs []*workflow.Graph, queues []string) (numbers [][]int32, err error) {
	err = s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		b := s.newBatch()
		b.add("set_local", named{"names": []string{"lock_timeout"}, "values": []string{registerPatience}})
		b.add("lock_catalog", named{"key": s.lockKey("catalog")})
		if err := send(ctx, tx, b); err != nil {
			return err
		}
		if err := s.registerQueues(ctx, tx, graphs, queues); err != nil {
			return err
		}
		numbers = numbers[:0]
		var again []int32 // definitions whose steps were not all there
		for _, g := range graphs {
			number, handlers, err := s.registerGraph(ctx, tx, g)
			if err != nil {
				return err
			}
			numbers = append(numbers, handlers)
			if number != 0 {
				again = append(again, number)
			}
		}
		return s.renumberTasks(ctx, tx, again)
	})
	if errors.Is(err, errLockTimeout) {
		err = fmt.Errorf("others register workflows, or hold the tables of definitions: %w", err)
	}
	return numbers, err
}

func (s *Store) registerQueues(ctx context.Context, tx pgx.Tx, graphs []*workflow.Graph, queues []string) error {
	names := []string{}
	for _, q := range queues {
		names = append(names, queueName(q))
	}
	for _, g := range graphs {
		for i := range g.Nodes {
			names = append(names, queueName(g.Nodes[i].Queue))
		}
		if g.OnFailure != nil {
			names = append(names, queueName(g.OnFailure.Queue))
		}
	}
	if err := s.exec(ctx, tx, "insert_queues", named{"names": names}); err != nil {
		return err
	}
	return s.loadQueuesIn(ctx, tx)
}

// renumberTasks gives the tasks of definitions that have just been stored the numbers of
// these: somebody may have removed what gave them their own.
func (s *Store) renumberTasks(ctx context.Context, tx pgx.Tx, definitions []int32) error {
	if len(definitions) == 0 {
		return nil
	}
	b := s.newBatch()
	b.Queue("set local enable_hashjoin = on") // the rows of a queue have no index by run
	b.add("renumber_tasks", named{"definitions": definitions})
	return send(ctx, tx, b)
}

// registerGraph stores a graph, and returns how its steps are numbered. number is that of
// the definition if some of its steps were not there.
func (s *Store) registerGraph(ctx context.Context, tx pgx.Tx, g *workflow.Graph) (number int32, handlers []int32, err error) {
	nodes := make([]*workflow.Node, 0, len(g.Nodes)+1)
	for i := range g.Nodes {
		nodes = append(nodes, &g.Nodes[i])
	}
	if g.OnFailure != nil {
		nodes = append(nodes, g.OnFailure)
	}
	args := named{
		"number": definitionNumber(g.Hash), "probes": definitionProbes,
		"hash": g.Hash[:], "name": g.Name, "output": g.Output, "policy": int16(g.Policy), "steps": int32(len(g.Nodes)),
		"sinks": g.Sinks(), "slow": lifecycle.NeedsSlowPath(g), "has_handler": g.OnFailure != nil,
		"class": int16(g.Retention), "input_free": g.InputFree,
	}
	if err := s.exec(ctx, tx, "insert_definition", args); err != nil {
		return 0, nil, err
	}
	if handlers, err = s.numberHandlers(ctx, tx, g, nodes); err != nil {
		return 0, nil, err
	}
	text, values := s.statements.bind("insert_definition_steps", s.stepRows(g.Hash, nodes, handlers))
	tag, err := tx.Exec(ctx, text, values...)
	if err != nil {
		return 0, nil, err
	}
	text, values = s.statements.bind("find_numbers", named{"hash": g.Hash[:]})
	rows, err := tx.Query(ctx, text, values...)
	if err != nil {
		return 0, nil, err
	}
	handlers = handlers[:0]
	var handler int32
	_, err = pgx.ForEachRow(rows, []any{&number, &handler}, func() error {
		handlers = append(handlers, handler)
		return nil
	})
	if tag.RowsAffected() == 0 {
		number = 0
	}
	return number, handlers, err
}

// definitionProbes is how many numbers are tried for a definition.
const definitionProbes = 1000

// definitionNumber returns the number that a definition gets if it is free. It
// follows from the content, so that a database that lost a definition does not
// give its number to another one that some store may still remember.
func definitionNumber(hash workflow.Hash) int32 {
	return int32(binary.BigEndian.Uint32(hash[:])%(math.MaxInt32-definitionProbes)) + 1
}

func (s *Store) numberHandlers(ctx context.Context, tx pgx.Tx, g *workflow.Graph, nodes []*workflow.Node) ([]int32, error) {
	steps, fingerprints := []string{}, [][]byte{}
	for _, n := range nodes {
		steps, fingerprints = append(steps, n.Name), append(fingerprints, n.Fingerprint[:])
	}
	numbers := make([]int32, len(nodes))
	copy(numbers, s.catalog.firstNumbers(g.Hash))
	err := s.exec(ctx, tx, "insert_handlers", named{
		"workflow": g.Name, "hash": g.Hash[:], "steps": steps, "fingerprints": fingerprints, "numbers": numbers,
	})
	if err != nil {
		return nil, err
	}
	text, values := s.statements.bind("find_handlers", named{"workflow": g.Name, "steps": steps, "fingerprints": fingerprints})
	rows, err := tx.Query(ctx, text, values...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int32])
}

func (s *Store) stepRows(hash workflow.Hash, nodes []*workflow.Node, handlers []int32) named {
	var (
		names, children, parents []string
		kinds, traits, queues    []int16
		pending                  []int32
		sleeps, timeouts         []int64
		fingerprints             [][]byte
	)
	for _, n := range nodes {
		queue := int16(0)
		if n.Queue != "" {
			queue = s.catalog.queueNumber(n.Queue)
		}
		names, kinds, traits = append(names, n.Name), append(kinds, int16(n.Kind)), append(traits, int16(n.Traits))
		pending, queues = append(pending, n.Pending), append(queues, queue)
		children, parents = append(children, arrayText(packChildren(n.Children))), append(parents, arrayText(n.Parents))
		sleeps, timeouts = append(sleeps, int64(n.Sleep)), append(timeouts, int64(n.StartTimeout))
		fingerprints = append(fingerprints, n.Fingerprint[:])
	}
	return named{
		"hash": hash[:], "names": names, "kinds": kinds, "traits": traits, "pending": pending, "children": children,
		"parents": parents, "queues": queues, "handlers": handlers, "sleeps": sleeps, "start_timeouts": timeouts,
		"fingerprints": fingerprints,
	}
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
