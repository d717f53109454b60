package registry

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// definitionsMax bounds the definitions kept in memory: a pod meets those it
// registers and those of runs that other versions left. Beyond it all are
// forgotten and read again.
const definitionsMax = 10_000

// Definition is a stored graph with the numbers that tables use.
type Definition struct {
	Number   int32
	Count    int32 // of the tasks that a run begins with
	Graph    *workflow.Graph
	Handlers []int32          // by step, the failure handler last
	queues   []int16          // by step; 0: that of the run
	steps    map[string]int32 // by name
	Roots    []int32          // steps without parents
	Plain    bool             // its roots go straight into the queue
	Protocol int16            // of pods that know it, the lowest
	later    bool             // Numbers of it are higher than those of this version
	declared int32            // steps that are stored, but the failure handler's
}

// Node returns the declaration of a step.
func (d *Definition) Node(step int32) *workflow.Node { return pgsql.Node(d.Graph, step) }

// IsDynamic reports whether a task of a run is none of the graph's steps, nor the failure
// handler's.
func (d *Definition) IsDynamic(step int32) bool { return pgsql.IsDynamic(d.Graph, step) }

// DeclaredAs returns the name of the step that a dynamic task is of. What a machine has started says
// it in its own name: the run may have got another definition since.
func (d *Definition) DeclaredAs(t lifecycle.Dynamic) string {
	if d.Graph.IsMachine() {
		name, _ := lifecycle.SpawnedAs(t.Name)
		return name
	}
	return d.Node(t.Declared).Name
}

// QueueOf returns the queue that a step of a run waits in.
func (d *Definition) QueueOf(step int32, run int16) int16 {
	if q := d.queues[step]; q != 0 {
		return q
	}
	return run
}

// Catalog knows what is written once and never changes: definitions and
// Queues by their numbers, tenants by their groups. It is safe for concurrent
// use.
type catalog struct {
	mu       sync.Mutex
	numbers  map[string]int16 // of queues
	names    map[int16]string
	byHash   map[workflow.Hash]*Definition
	byNumber map[int32]*Definition
	tenants  map[string]int32
	own      map[workflow.Hash]registered
	queues   map[string]bool // that this store registered
}

// registered is a graph that this store registered.
type registered struct {
	graph    *workflow.Graph
	handlers []int32 // as the database first numbered them
}

// NewCatalog returns an empty one.
func NewCatalog() *catalog {
	return &catalog{
		numbers: map[string]int16{}, names: map[int16]string{},
		byHash: map[workflow.Hash]*Definition{}, byNumber: map[int32]*Definition{}, tenants: map[string]int32{},
		own: map[workflow.Hash]registered{}, queues: map[string]bool{},
	}
}

func (c *catalog) keep(d *Definition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byHash) >= definitionsMax {
		clear(c.byHash)
		clear(c.byNumber)
	}
	c.byHash[d.Graph.Hash], c.byNumber[d.Number] = d, d
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

// Owns reports whether this store registered what a trigger names.
func (c *catalog) Owns(t *persistence.Trigger) (definition, queue bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, definition = c.own[t.Definition]
	return definition, c.queues[QueueName(t.Queue)]
}

// OwnsNumber reports whether a definition may be one that this store registered.
func (c *catalog) OwnsNumber(definition int32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for hash := range c.own {
		if first := DefinitionNumber(hash); definition >= first && definition <= first+definitionProbes {
			return true
		}
	}
	return false
}

// Forget forgets everything but what this store registered.
func (c *catalog) Forget() {
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

func (c *catalog) QueueNumber(name string) int16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.numbers[QueueName(name)]
}

func (c *catalog) queueName(number int16) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names[number]
}

// DefaultQueue is the queue of runs and steps that name none.
const DefaultQueue = "default"

// QueueName is the name of a queue, where "" stands for the default one.
func QueueName(name string) string {
	if name == "" {
		return DefaultQueue
	}
	return name
}

// LoadQueues reads the numbers of all queues.
func (s *Registry) LoadQueues(ctx context.Context) error {
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
	s.Catalog.mu.Lock()
	defer s.Catalog.mu.Unlock()
	var number int16
	var name string
	_, err = pgx.ForEachRow(rows, []any{&number, &name}, func() error {
		s.Catalog.numbers[name], s.Catalog.names[number] = number, name
		return nil
	})
	return pgerr.Translate(err)
}

// Queue returns the number of a queue, 0 if no pod ever registered it.
func (s *Registry) Queue(ctx context.Context, name string) (int16, error) {
	if number := s.Catalog.QueueNumber(name); number != 0 {
		return number, nil
	}
	if err := s.LoadQueues(ctx); err != nil {
		return 0, err
	}
	return s.Catalog.QueueNumber(name), nil
}

// NameQueue returns the name of a queue by its number.
func (s *Registry) NameQueue(ctx context.Context, on pgsql.Querier, number int16) (string, error) {
	if name := s.Catalog.queueName(number); name != "" {
		return name, nil
	}
	if err := s.loadQueuesIn(ctx, on); err != nil {
		return "", err
	}
	return s.Catalog.queueName(number), nil
}

// Definitions returns stored definitions by hash; what is not stored is
// missing from the map.
func (s *Registry) Definitions(ctx context.Context, hashes []workflow.Hash) (map[workflow.Hash]*Definition, error) {
	found := make(map[workflow.Hash]*Definition, len(hashes))
	var unknown []workflow.Hash
	s.Catalog.mu.Lock()
	for _, hash := range hashes {
		if d := s.Catalog.byHash[hash]; d != nil {
			found[hash] = d
		} else {
			unknown = append(unknown, hash)
		}
	}
	s.Catalog.mu.Unlock()
	if len(unknown) == 0 {
		return found, nil
	}
	ctx, cancel := pgerr.Bounded(ctx)
	defer cancel()
	loaded, err := s.LoadDefinitions(ctx, s.Conns, nil, unknown)
	for _, d := range loaded {
		found[d.Graph.Hash] = d
	}
	return found, err
}

// DefinitionOf returns a definition by its number. Runs name no other.
func (s *Registry) DefinitionOf(ctx context.Context, on pgsql.Querier, number int32) (*Definition, error) {
	s.Catalog.mu.Lock()
	d := s.Catalog.byNumber[number]
	s.Catalog.mu.Unlock()
	if d != nil {
		return d, nil
	}
	loaded, err := s.LoadDefinitions(ctx, on, []int32{number}, nil)
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
	d, err := s.DefinitionOf(ctx, on, number)
	if err != nil {
		return nil, err
	}
	return d.Graph, nil
}

// Definition implements persistence.Registry.
func (s *Registry) Definition(ctx context.Context, hash workflow.Hash) (*workflow.Graph, error) {
	found, err := s.Definitions(ctx, []workflow.Hash{hash})
	if err != nil || found[hash] == nil {
		return nil, err
	}
	return found[hash].Graph, nil
}
