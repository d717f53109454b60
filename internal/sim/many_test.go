package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// many is a cluster of many pods without faults, and a count of what they say
// to the database and to each other.
type many struct {
	t     *testing.T
	world *World
	graph *workflow.Graph
	pods  []*Pod
	slots int
	takes time.Duration // of each task
	sends int           // triggers so far
	count tally
}

// tally is what was counted since the last look.
type tally struct {
	began     time.Time
	took      time.Duration
	calls     map[string]int // store calls, by name
	empty     int            // claims that found nothing
	delivered int            // wakes of ready tasks that notices brought to pods
	second    int            // the last in which a pod notified
	inSecond  int            // notifications in it
	most      int            // notifications in any second
	waits     []time.Duration
	tenants   []string // of the tasks, in the order in which they began
}

func newMany(t *testing.T, pods, slots int, takes time.Duration) *many {
	t.Helper()
	m := &many{t: t, graph: storetest.Single(), slots: slots, takes: takes}
	m.world = NewLab().New(Options{Seed: 1, Order: FIFO, Answered: m.answered})
	m.look()
	for i := range pods {
		m.start(fmt.Sprintf("pod-%d", i))
	}
	m.pass(20 * time.Second) // the first sweeps, and all pods were counted
	m.look()
	return m
}

func (m *many) start(name string) {
	numbers, err := m.world.Store().RegisterDefinitions(m.t.Context(), []*workflow.Graph{m.graph}, []string{actors.DefaultQueue})
	require.NoError(m.t, err)
	p := m.world.NewPod(name, nil)
	options := p.Host()
	options.Ports.Listener = counting{options.Ports.Listener, m}
	options.Config = actors.Config{Slots: m.slots, PodName: name}
	node := m.graph.Nodes[0]
	options.Functions = map[int32]actors.StepFunction{numbers[0][0]: {
		Workflow: m.graph.Name, Step: node.Name, Fingerprint: node.Fingerprint,
		Call: func(ctx context.Context, in actors.Inputs) (actors.Output, error) {
			triggered := time.Unix(0, int64(binary.BigEndian.Uint64(in.Input)))
			m.count.waits = append(m.count.waits, m.world.Now().Sub(triggered))
			m.count.tenants = append(m.count.tenants, actors.AttemptFrom(ctx).Info().Tenant)
			return actors.Output{}, p.Sleep(ctx, m.takes)
		},
	}}
	options.Evaluate = func(trigger *persistence.Trigger) error { trigger.Definition = m.graph.Hash; return nil }
	_, err = p.Start(m.t.Context(), options)
	require.NoError(m.t, err)
	m.pods = append(m.pods, p)
}

// answered counts what the database answered.
func (m *many) answered(_ *Pod, call string, answer any, _ error) {
	c := &m.count
	c.calls[call]++
	if call == "notify" {
		if second := int(m.world.Elapsed() / time.Second); second != c.second {
			c.second, c.inSecond = second, 0
		}
		c.inSecond++
		c.most = max(c.most, c.inSecond)
	}
	if claimed, ok := answer.(persistence.Claimed); ok && len(claimed.Grants) == 0 {
		m.count.empty++
	}
}

// counting is a listener that counts.
type counting struct {
	cluster.Listener

	many *many
}

// Listen implements cluster.Listener.
func (c counting) Listen(ctx context.Context, connected func(), sink func(cluster.Notice)) error {
	return c.Listener.Listen(ctx, connected, func(n cluster.Notice) {
		for _, w := range n.Wakes {
			if w.Kind == cluster.WakeReady {
				c.many.count.delivered++
			}
		}
		sink(n)
	})
}

// look begins to count anew, and returns what was counted.
func (m *many) look() tally {
	last := m.count
	last.took = m.world.Now().Sub(last.began)
	m.count = tally{began: m.world.Now(), calls: map[string]int{}}
	return last
}

func (m *many) pass(d time.Duration) {
	for until := m.world.Now().Add(d); m.world.Now().Before(until) && m.world.Step(); {
	}
	require.Nil(m.t, m.world.Violation())
}

// trigger triggers runs of a tenant at one pod after the other.
func (m *many) trigger(tenant string, runs int) {
	for range runs {
		m.sends++
		m.triggerAt(m.pods[m.sends%len(m.pods)], tenant, 1)
	}
}

// triggerAt triggers runs of a tenant at one pod.
func (m *many) triggerAt(p *Pod, tenant string, runs int) {
	for range runs {
		now := binary.BigEndian.AppendUint64(nil, uint64(m.world.Now().UnixNano()))
		m.world.Send(p.Pod.PID(), &messages.TriggerRun{Workflow: m.graph.Name, Tenant: tenant, Input: now}, nil)
	}
}

// finish lets time pass until so many tasks have begun.
func (m *many) finish(tasks int, within time.Duration) {
	for until := m.world.Now().Add(within); len(m.count.waits) < tasks && m.world.Now().Before(until) && m.world.Step(); {
	}
	require.Len(m.t, m.count.waits, tasks)
}

// wait is a quantile of the time from the trigger to the start.
func (c *tally) wait(q float64) time.Duration {
	if len(c.waits) == 0 {
		return 0
	}
	slices.Sort(c.waits)
	return c.waits[int(q*float64(len(c.waits)-1))]
}

func (c *tally) total() int {
	total := 0
	for _, n := range c.calls {
		total += n
	}
	return total
}

// sweeps is at most how many claims so many pods make in that time without
// being woken.
func (c *tally) sweeps(pods int) int { return int(float64(pods) * c.took.Seconds() / 27) }

func (c *tally) String() string {
	at := func(q float64) time.Duration { return c.wait(q).Round(10 * time.Microsecond) }
	return fmt.Sprintf("%d tasks, start p50 %v p99 %v max %v; %d claims, %d of them empty; %d notifications, at most %d in a second; %d wakes of ready tasks delivered; calls %v",
		len(c.waits), at(0.5), at(0.99), at(1), c.calls["claim_tasks"], c.empty, c.calls["notify"], c.most, c.delivered, c.calls)
}

// TestManyPods: what pods cost each other and the database does not grow with
// their number, but for what each says to stay alive. The figures are in
// docs/scaling.md; TROUPE_TEST_MANY_PODS=1000 is for `make sim-many`.
func TestManyPods(t *testing.T) {
	t.Parallel()
	sizes := []int{100}
	if text := os.Getenv("TROUPE_TEST_MANY_PODS"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		sizes = []int{n}
	}
	for _, pods := range sizes {
		t.Run(fmt.Sprintf("%d/idle", pods), func(t *testing.T) { t.Parallel(); manyIdle(t, pods) })
		t.Run(fmt.Sprintf("%d/trickle", pods), func(t *testing.T) { t.Parallel(); manyTrickle(t, pods) })
		t.Run(fmt.Sprintf("%d/across", pods), func(t *testing.T) { t.Parallel(); manyAcross(t, pods) })
		t.Run(fmt.Sprintf("%d/nearly_full", pods), func(t *testing.T) { t.Parallel(); manyNearlyFull(t, pods) })
		t.Run(fmt.Sprintf("%d/burst", pods), func(t *testing.T) { t.Parallel(); manyBurst(t, pods) })
		t.Run(fmt.Sprintf("%d/fairness", pods), func(t *testing.T) { t.Parallel(); manyFair(t, pods) })
	}
}

// manyIdle: a pod without work costs a renewal every five seconds and a sweep
// every thirty, the leader a ping a second.
func manyIdle(t *testing.T, pods int) {
	m := newMany(t, pods, 4, time.Second)
	m.pass(2 * time.Minute)
	c := m.look()
	t.Log(c.String())
	const minutes = 2
	require.InDelta(t, 12*minutes*pods, c.calls["renew_pod"], float64(pods))
	require.InDelta(t, 60*minutes, c.calls["ping"], 5)
	require.LessOrEqual(t, c.calls["claim_tasks"]+c.calls["drain_intake"], 5*minutes*pods, "two sweeps of two calls a minute, and a bit")
	require.Zero(t, c.calls["notify"])
	rest := c.calls["expire_pods"] + c.calls["fire_timers"] + c.calls["park_tasks"]
	require.LessOrEqual(t, rest, 12*minutes, "one leader's")
	require.LessOrEqual(t, float64(c.total())/(60*minutes), 1.3+0.3*float64(pods))
}

// manyTrickle: a task that becomes ready now and then starts at once, and few pods
// look for it.
func manyTrickle(t *testing.T, pods int) {
	m := newMany(t, pods, 4, 50*time.Millisecond)
	const tasks = 200
	for range tasks {
		m.trigger("a", 1)
		m.pass(100 * time.Millisecond)
	}
	m.finish(tasks, time.Second)
	c := m.look()
	t.Log(c.String())
	require.LessOrEqual(t, c.wait(0.99), 2*time.Millisecond)
	swept := c.sweeps(pods)
	require.LessOrEqual(t, c.calls["claim_tasks"]-swept, 12*tasks, "one pod takes it, another is named, eight stand in, some look twice")
	require.LessOrEqual(t, c.calls["notify"], 2*tasks, "that it is ready, and that its run has ended")
	require.LessOrEqual(t, c.delivered, tasks*pods)
	require.LessOrEqual(t, c.most, 200)
}

// manyAcross: the pod that triggers has no slot to spare, so that another one
// has to be woken each time.
func manyAcross(t *testing.T, pods int) {
	m := newMany(t, pods, 1, 40*time.Second)
	full := m.pods[0]
	m.triggerAt(full, "a", 1)
	m.finish(1, time.Second)
	m.takes = 20 * time.Millisecond
	m.pass(10 * time.Second)
	m.look()
	const tasks = 100
	for range tasks {
		m.triggerAt(full, "a", 1)
		m.pass(100 * time.Millisecond)
	}
	m.finish(tasks, time.Second)
	c := m.look()
	t.Log(c.String())
	require.LessOrEqual(t, c.wait(0.5), 3*time.Millisecond)
	require.LessOrEqual(t, c.wait(0.99), 10*time.Millisecond+cluster.NotifyDelay(0, pods, 1))
	require.LessOrEqual(t, c.calls["claim_tasks"]-c.sweeps(pods), 12*tasks)
}

// manyNearlyFull: nine pods of ten are at work for long, and have not yet said
// so when the next task becomes ready. One of the tenth finds it.
func manyNearlyFull(t *testing.T, pods int) {
	m := newMany(t, pods, 2, 10*time.Minute)
	taken := 2 * pods * 9 / 10
	m.trigger("a", taken)
	m.finish(taken, 10*time.Second)
	m.pass(time.Second)
	m.look()
	const tasks = 20
	m.takes = time.Second
	for i := range tasks {
		m.triggerAt(m.pods[i%2], "b", 1)
		m.pass(2 * time.Second)
	}
	m.finish(tasks, time.Minute)
	c := m.look()
	t.Log(c.String())
	require.LessOrEqual(t, c.wait(0.5), 10*time.Millisecond)
	require.LessOrEqual(t, c.wait(1), 5*time.Second, "missed by all pods that were named, found by a sweep")
}

// manyBurst: much more work than slots is shared by all, in few claims.
func manyBurst(t *testing.T, pods int) {
	const slots, rounds, takes = 4, 5, 500 * time.Millisecond
	m := newMany(t, pods, slots, takes)
	tasks := pods * slots * rounds
	m.trigger("a", tasks)
	m.finish(tasks, time.Minute)
	took := m.world.Now().Sub(m.count.began)
	c := m.look()
	t.Logf("%s; took %v", c.String(), took)
	require.LessOrEqual(t, took, rounds*takes, "the last begin when all before have ended: no slot stood empty for long")
	require.LessOrEqual(t, c.calls["claim_tasks"], tasks)
	require.LessOrEqual(t, c.empty, tasks/20)
	require.LessOrEqual(t, c.most, 200)
}

// TestBusyPodsNeedNoStream: eight pods that are busy drop the stream. They
// notify each other, not too often, and lose nothing by it.
func TestBusyPodsNeedNoStream(t *testing.T) {
	t.Parallel()
	const pods, slots, takes, tasks = 8, 4, 200 * time.Millisecond, 5000
	m := newMany(t, pods, slots, takes)
	m.trigger("a", tasks)
	m.pass(25 * time.Second)
	for _, p := range m.pods {
		require.Equal(t, "spared", p.Pod.Stats().Mode)
	}
	require.Empty(t, m.world.bus.taps, "no pod reads a stream")
	m.finish(tasks, 30*time.Second)
	took := m.world.Now().Sub(m.count.began)
	c := m.look()
	t.Logf("%s; took %v", c.String(), took)
	require.LessOrEqual(t, took, tasks*takes/(pods*slots)*21/20, "no slot stood empty for long")
	require.LessOrEqual(t, c.most, 200+pods, "of all pods together")
	m.pass(25 * time.Second)
	for _, p := range m.pods {
		require.Equal(t, "relay", p.Pod.Stats().Mode)
	}
	require.Len(t, m.world.bus.taps, 1, "the leader reads")
}

// manyFair: a tenant that comes while another has a long backlog waits for a
// slot, and not for the backlog.
func manyFair(t *testing.T, pods int) {
	const slots, takes = 2, 200 * time.Millisecond
	m := newMany(t, pods, slots, takes)
	backlog := pods * slots * 10
	m.trigger("large", backlog)
	m.pass(time.Second)
	before := len(m.count.tenants)
	m.trigger("small", 10)
	m.trigger("other", 10)
	m.finish(backlog+20, time.Minute)
	last := map[string]int{}
	for i, tenant := range m.count.tenants {
		last[tenant] = i - before
	}
	t.Logf("of %d tasks that began after the small tenants came, theirs were at most the %dth and the %dth", backlog+20-before, last["small"], last["other"])
	// Each dispatch of theirs waits for one of each other tenant, after what is
	// in flight.
	require.LessOrEqual(t, last["small"], 2*pods*slots+3*10)
	require.LessOrEqual(t, last["other"], 2*pods*slots+3*10)
}
