package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// TestCrowd has several pods with stores of their own do everything at once for
// some seconds: triggers, claims, records of every kind with inline grants,
// cancels, timers, drains, expiries, parking. No task is granted twice, no
// fan-in is lost, nothing deadlocks, and all of it drains.
func TestCrowd(t *testing.T) {
	length := 5 * time.Second
	if testing.Short() {
		length = time.Second
	}
	d := openDatabase(t, Options{})
	graphs := []*workflow.Graph{
		storetest.Single(), storetest.Diamond(), storetest.Fan(9), storetest.Branch(), storetest.Skipping(), storetest.Handled(),
		storetest.Nap(50 * time.Millisecond), storetest.Mixed(workflow.FailFast), storetest.Mixed(workflow.FinishSiblings),
		storetest.InputBranch(), storetest.Impatient(200 * time.Millisecond),
	}
	c := &crowd{kit: newKit(d, graphs...), graphs: graphs}
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	var group sync.WaitGroup
	for i := range 4 {
		pod := c.open(i)
		group.Go(func() { pod.work(ctx) })
		group.Go(func() { pod.trigger(ctx) })
	}
	group.Go(func() { c.lead(ctx) })
	group.Go(func() { c.cancels(ctx) })
	group.Wait()
	require.False(t, t.Failed())

	c.drain()
	c.requireSound()
	require.Zero(t, value[int](d, `select deadlocks from pg_stat_database where datname = current_database()`), "deadlocks")
	require.Zero(t, value[int](d, `select count(*) from {schema}.workflow_runs where state < 10`))
	t.Logf("%d runs, %d grants, %d cancels, %d expiries, %d conflicts", c.triggered.Load(), c.granted.Load(), c.canceled.Load(),
		c.expired.Load(), c.conflicts.Load())
	require.Positive(t, c.expired.Load())
	require.Positive(t, c.canceled.Load())
}

type crowd struct {
	*kit
	graphs []*workflow.Graph
	runs   sync.Map // workflow.RunID of recent ones, by slot
	grants sync.Map // by task and epoch

	triggered, granted, canceled, expired, conflicts atomic.Int64
}

// ok reports whether a call went well; a conflict is none of the test's
// business but is counted.
func (c *crowd) ok(ctx context.Context, what string, err error) bool {
	switch {
	case err == nil:
		return true
	case ctx.Err() != nil:
	case errors.Is(err, persistence.ErrConflict):
		c.conflicts.Add(1)
	case errors.Is(err, persistence.ErrPodDead):
	default:
		c.t.Errorf("%s: %v", what, err)
	}
	return false
}

// crowdPod is one pod of a crowd.
type crowdPod struct {
	*crowd
	store *Store
	rand  *rand.Rand
	seed  uint64
}

func (c *crowd) open(i int) *crowdPod {
	c.t.Helper()
	store, err := Open(c.ctx, Options{Pool: c.user, Schema: strings.Trim(c.schema, `"`)})
	require.NoError(c.t, err)
	c.t.Cleanup(store.Close)
	return &crowdPod{crowd: c, store: store, rand: rand.New(rand.NewPCG(uint64(i), 1)), seed: uint64(i)}
}

func (p *crowdPod) trigger(ctx context.Context) {
	random := rand.New(rand.NewPCG(p.seed, 2))
	for n := 0; ctx.Err() == nil; n++ {
		var list []persistence.Trigger
		for range 1 + random.IntN(20) {
			g := p.graphs[random.IntN(len(p.graphs))]
			draft := p.draft(g, fmt.Sprintf("tenant%d", random.IntN(5)), 1)[0]
			if g.Name == "inputbranch" {
				draft.Edges = []persistence.EdgeResult{{Child: "yes", Flags: lifecycle.FlagSkip}}
			}
			if random.IntN(20) == 0 {
				draft.Key = fmt.Sprint("key", random.IntN(50))
			}
			if random.IntN(10) == 0 {
				draft.At = time.Now().Add(100 * time.Millisecond)
			}
			list = append(list, draft)
		}
		if n%3 == 0 {
			p.submit(ctx, list)
			continue
		}
		out, err := p.store.TriggerRuns(ctx, list, persistence.GrantRequest{})
		if !p.ok(ctx, "trigger", err) {
			continue
		}
		for i, answer := range out.Answers {
			if answer.Result == persistence.Triggered {
				p.triggered.Add(1)
				p.runs.Store(random.IntN(100), list[i].Run)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// submit triggers in a user's transaction.
func (p *crowdPod) submit(ctx context.Context, list []persistence.Trigger) {
	tx, err := p.user.Begin(ctx)
	if !p.ok(ctx, "begin", translate(err)) {
		return
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	for _, draft := range list[:min(3, len(list))] {
		draft.Key = "" // two users' transactions could wait for each other's keys
		if _, err := p.store.TriggerInTx(ctx, tx, draft); !p.ok(ctx, "trigger in tx", err) {
			return
		}
	}
	p.ok(ctx, "commit", translate(tx.Commit(ctx)))
}

// work lives the lives of pods, one after the other: each claims and records
// for a while, then leaves, or falls silent with tasks in its hands.
func (p *crowdPod) work(ctx context.Context) {
	for ctx.Err() == nil {
		pod, _, err := p.store.JoinPod(ctx, persistence.PodInfo{
			Name: "crowd", Handlers: p.handlers, Queues: []string{defaultQueue}, Slots: 50, TTL: 300 * time.Millisecond,
		})
		if !p.ok(ctx, "join", err) {
			continue
		}
		held := p.live(ctx, pod, 3+p.rand.IntN(10))
		if p.rand.IntN(3) > 0 {
			_, err := p.store.LeavePod(ctx, pod)
			p.ok(ctx, "leave", err)
			continue
		}
		time.Sleep(350 * time.Millisecond) // frozen: its late records are refused or stale
		if len(held) > 0 {
			_, err := p.store.RecordTransitions(ctx, p.report(pod, held))
			p.ok(ctx, "late record", err)
		}
	}
}

func (p *crowdPod) live(ctx context.Context, pod int64, rounds int) []persistence.Grant {
	var held []persistence.Grant
	for range rounds {
		if ctx.Err() != nil {
			break
		}
		claimed, err := p.store.ClaimTasks(ctx, p.request(pod, 1+p.rand.IntN(30)))
		if p.ok(ctx, "claim", err) {
			p.note(pod, claimed.Grants)
			held = append(held, claimed.Grants...)
		}
		p.rand.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
		n := p.rand.IntN(len(held) + 1)
		recorded, err := p.store.RecordTransitions(ctx, p.report(pod, held[:n]))
		if !p.ok(ctx, "record", err) {
			break
		}
		held = held[n:]
		p.note(pod, recorded.Grants)
		held = append(held, recorded.Grants...)
		renewal := persistence.Renewal{Pod: pod, TTL: 300 * time.Millisecond}
		for _, g := range held {
			renewal.Held = append(renewal.Held, persistence.Held{Task: g.Task, Epoch: g.Epoch, Progress: []byte("1")})
		}
		_, err = p.store.RenewPod(ctx, renewal)
		if !p.ok(ctx, "renew", err) {
			break
		}
	}
	return held
}

// note fails the test if a task is granted twice under one epoch.
func (p *crowdPod) note(pod int64, grants []persistence.Grant) {
	for _, g := range grants {
		p.granted.Add(1)
		key := fmt.Sprintf("%v/%d/%d", g.Task.Run, g.Task.Step, g.Epoch)
		if other, twice := p.grants.LoadOrStore(key, pod); twice {
			p.t.Errorf("%s granted to %d and %d", key, other, pod)
		}
	}
}

// report makes up how attempts ended.
func (p *crowdPod) report(pod int64, grants []persistence.Grant) persistence.Record {
	record := p.completion(pod, grants...)
	record.CancelGrace = 100 * time.Millisecond
	record.Limit, record.Handlers, record.Queues = p.rand.IntN(20), p.handlers, []string{defaultQueue}
	for i := range record.Transitions {
		t := &record.Transitions[i]
		switch p.rand.IntN(20) {
		case 0:
			t.Report, t.Class, t.Error = lifecycle.Errored, "crowd", "broke"
		case 1:
			t.Report, t.Retry, t.RetryIn = lifecycle.Errored, true, 20*time.Millisecond
		case 2:
			t.Report = lifecycle.Released
		case 3:
			t.Report = lifecycle.Lost
		default:
			switch grants[i].Step {
			case "choose":
				t.Edges = []persistence.EdgeResult{{Child: "yes", Flags: lifecycle.FlagSkip}, {Child: "maybe", Flags: lifecycle.FlagSkip}}
			case "bad":
				t.Report, t.Class, t.Error = lifecycle.Errored, "crowd", "broke"
			}
		}
	}
	return record
}

// lead does what the leader does, and in between what every pod does.
func (c *crowd) lead(ctx context.Context) {
	epoch, err := c.store.BumpEpoch(ctx, 1)
	if !c.ok(ctx, "bump", err) {
		return
	}
	for n := 0; ctx.Err() == nil; n++ {
		_, err := c.store.FireTimers(ctx, epoch, 200)
		c.ok(ctx, "fire", err)
		_, err = c.store.DrainIntake(ctx, 50)
		c.ok(ctx, "drain", err)
		expired, err := c.store.ExpirePods(ctx, epoch, 3, 100, time.Time{})
		if c.ok(ctx, "expire", err) {
			c.expired.Add(int64(expired.Tasks))
		}
		if n%10 == 0 {
			_, err := c.store.ParkTasks(ctx, epoch, 100)
			c.ok(ctx, "park", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (c *crowd) cancels(ctx context.Context) {
	random := rand.New(rand.NewPCG(1, 3))
	for ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
		found, _ := c.runs.Load(random.IntN(100))
		id, ok := found.(workflow.RunID)
		if !ok {
			continue
		}
		out, err := c.store.CancelRun(ctx, persistence.Cancel{Run: id, Grace: 100 * time.Millisecond})
		if c.ok(ctx, "cancel", err) && out.Result == lifecycle.Moved {
			c.canceled.Add(1)
		}
	}
}

// drain lets one pod that makes no mistakes finish everything.
func (c *crowd) drain() {
	c.t.Helper()
	require.NoError(c.t, c.advance(c.ctx, 24*time.Hour))
	epoch, err := c.store.BumpEpoch(c.ctx, 1)
	require.NoError(c.t, err)
	require.Eventually(c.t, func() bool {
		expired, err := c.store.ExpirePods(c.ctx, epoch, 3, 1000, time.Time{})
		require.NoError(c.t, err)
		return len(expired.Pods) == 0
	}, time.Minute, time.Millisecond)
	pod := c.join(time.Hour)
	require.Eventually(c.t, func() bool {
		drained, err := c.store.DrainIntake(c.ctx, 500)
		require.NoError(c.t, err)
		parked, err := c.store.ParkTasks(c.ctx, epoch, 1000)
		require.NoError(c.t, err)
		c.advanceTimers()
		fired, err := c.store.FireTimers(c.ctx, epoch, 1000)
		require.NoError(c.t, err)
		granted := 0
		for grants := c.claim(pod, 500); len(grants) > 0; grants = c.claim(pod, 500) {
			granted += len(grants)
			c.send(c.completion(pod, grants...))
		}
		return drained.Count+parked.Unparked+fired.Count+granted == 0
	}, time.Minute, time.Millisecond)
}

// advanceTimers makes every timer due.
func (c *crowd) advanceTimers() {
	c.exec(`update {schema}.durable_timers set wake_at = wake_at - interval '1 day'`)
}
