package postgres

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// definitionsMax bounds the definitions kept in memory: a pod meets those it
// registers and those of runs that other versions left. Beyond it all are
// forgotten and read again.
const definitionsMax = 10_000

// definition is a stored graph with the numbers that tables use.
type definition struct {
	number   int32
	count    int32 // of its steps, but the failure handler's
	graph    *workflow.Graph
	handlers []int32          // by step, the failure handler last
	queues   []int16          // by step; 0: that of the run
	steps    map[string]int32 // by name
	roots    []int32          // steps without parents
	plain    bool             // its roots go straight into the queue
	later    bool             // numbers of it are higher than those of this version
}

// node returns the declaration of a step.
func (d *definition) node(step int32) *workflow.Node { return pgsql.Node(d.graph, step) }

// queueOf returns the queue that a step of a run waits in.
func (d *definition) queueOf(step int32, run int16) int16 {
	if q := d.queues[step]; q != 0 {
		return q
	}
	return run
}

// catalog knows what is written once and never changes: definitions and
// queues by their numbers, tenants by their groups. It is safe for concurrent
// use.
type catalog struct {
	mu       sync.Mutex
	numbers  map[string]int16 // of queues
	names    map[int16]string
	byHash   map[workflow.Hash]*definition
	byNumber map[int32]*definition
	tenants  map[string]int32
	own      map[workflow.Hash]registered
	queues   map[string]bool // that this store registered
}

// registered is a graph that this store registered.
type registered struct {
	graph    *workflow.Graph
	handlers []int32 // as the database first numbered them
}

// newCatalog returns an empty one.
func newCatalog() *catalog {
	return &catalog{
		numbers: map[string]int16{}, names: map[int16]string{},
		byHash: map[workflow.Hash]*definition{}, byNumber: map[int32]*definition{}, tenants: map[string]int32{},
		own: map[workflow.Hash]registered{}, queues: map[string]bool{},
	}
}

func (c *catalog) keep(d *definition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byHash) >= definitionsMax {
		clear(c.byHash)
		clear(c.byNumber)
	}
	c.byHash[d.graph.Hash], c.byNumber[d.number] = d, d
}

// register remembers what was registered, and how it was numbered first.
func (c *catalog) register(graphs []*workflow.Graph, handlers [][]int32, queues []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range queues {
		c.queues[name] = true
	}
	for i, g := range graphs {
		if _, known := c.own[g.Hash]; !known {
			c.own[g.Hash] = registered{g, handlers[i]}
		}
	}
}

// firstNumbers returns how a graph was numbered when it was first registered; nil: it was
// not.
func (c *catalog) firstNumbers(hash workflow.Hash) []int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own[hash].handlers
}

// owns reports whether this store registered what a trigger names.
func (c *catalog) owns(t *persistence.Trigger) (definition, queue bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, definition = c.own[t.Definition]
	return definition, c.queues[queueName(t.Queue)]
}

// ownsNumber reports whether a definition may be one that this store registered.
func (c *catalog) ownsNumber(definition int32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for hash := range c.own {
		if first := definitionNumber(hash); definition >= first && definition <= first+definitionProbes {
			return true
		}
	}
	return false
}

// forget forgets everything but what this store registered.
func (c *catalog) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.numbers)
	clear(c.names)
	clear(c.byHash)
	clear(c.byNumber)
	clear(c.tenants)
}

// registered returns what this store registered.
func (c *catalog) registered() (graphs []*workflow.Graph, queues []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.own {
		graphs = append(graphs, r.graph)
	}
	return graphs, slices.Collect(maps.Keys(c.queues))
}

func (c *catalog) queueNumber(name string) int16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.numbers[queueName(name)]
}

func (c *catalog) queueName(number int16) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names[number]
}

// defaultQueue is the queue of runs and steps that name none.
const defaultQueue = "default"

// queueName is the name of a queue, where "" stands for the default one.
func queueName(name string) string {
	if name == "" {
		return defaultQueue
	}
	return name
}

// loadQueues reads the numbers of all queues.
func (s *Registry) loadQueues(ctx context.Context) error {
	ctx, cancel := pgerr.Bounded(ctx)
	defer cancel()
	return s.loadQueuesIn(ctx, s.Conns)
}

func (s *Registry) loadQueuesIn(ctx context.Context, on pgsql.Querier) error {
	text, args := s.Bind("list_queues", pgsql.Named{})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return pgerr.Translate(err)
	}
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	var number int16
	var name string
	_, err = pgx.ForEachRow(rows, []any{&number, &name}, func() error {
		s.catalog.numbers[name], s.catalog.names[number] = number, name
		return nil
	})
	return pgerr.Translate(err)
}

// queue returns the number of a queue, 0 if no pod ever registered it.
func (s *Registry) queue(ctx context.Context, name string) (int16, error) {
	if number := s.catalog.queueNumber(name); number != 0 {
		return number, nil
	}
	if err := s.loadQueues(ctx); err != nil {
		return 0, err
	}
	return s.catalog.queueNumber(name), nil
}

// NameQueue returns the name of a queue by its number.
func (s *Registry) NameQueue(ctx context.Context, on pgsql.Querier, number int16) (string, error) {
	if name := s.catalog.queueName(number); name != "" {
		return name, nil
	}
	if err := s.loadQueuesIn(ctx, on); err != nil {
		return "", err
	}
	return s.catalog.queueName(number), nil
}

// definitions returns stored definitions by hash; what is not stored is
// missing from the map.
func (s *Registry) definitions(ctx context.Context, hashes []workflow.Hash) (map[workflow.Hash]*definition, error) {
	found := make(map[workflow.Hash]*definition, len(hashes))
	var unknown []workflow.Hash
	s.catalog.mu.Lock()
	for _, hash := range hashes {
		if d := s.catalog.byHash[hash]; d != nil {
			found[hash] = d
		} else {
			unknown = append(unknown, hash)
		}
	}
	s.catalog.mu.Unlock()
	if len(unknown) == 0 {
		return found, nil
	}
	ctx, cancel := pgerr.Bounded(ctx)
	defer cancel()
	loaded, err := s.loadDefinitions(ctx, s.Conns, nil, unknown)
	for _, d := range loaded {
		found[d.graph.Hash] = d
	}
	return found, err
}

// definitionOf returns a definition by its number. Runs name no other.
func (s *Registry) definitionOf(ctx context.Context, on pgsql.Querier, number int32) (*definition, error) {
	s.catalog.mu.Lock()
	d := s.catalog.byNumber[number]
	s.catalog.mu.Unlock()
	if d != nil {
		return d, nil
	}
	loaded, err := s.loadDefinitions(ctx, on, []int32{number}, nil)
	if err != nil {
		return nil, err
	}
	if len(loaded) == 0 {
		return nil, pgerr.ErrRegistryLost
	}
	return loaded[0], nil
}

// GraphOf returns the graph of a definition by its number.
func (s *Registry) GraphOf(ctx context.Context, on pgsql.Querier, number int32) (*workflow.Graph, error) {
	d, err := s.definitionOf(ctx, on, number)
	if err != nil {
		return nil, err
	}
	return d.graph, nil
}

// Definition implements persistence.Registry.
func (s *Registry) Definition(ctx context.Context, hash workflow.Hash) (*workflow.Graph, error) {
	found, err := s.definitions(ctx, []workflow.Hash{hash})
	if err != nil || found[hash] == nil {
		return nil, err
	}
	return found[hash].graph, nil
}
