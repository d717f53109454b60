package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// TestUnknownOutcome cuts the connection when a transaction is committed, so
// that the store cannot know whether it was: the same call again has one
// effect in all.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	open := schemas(t)
	type call = func(t *testing.T, k *fixture, again bool) error
	for name, c := range map[string]struct {
		stepwise bool // several round trips: it is cut at the commit
		make     func(k *fixture) call
	}{
		"trigger":      {true, func(k *fixture) call { return k.triggerer(10, "key") }},
		"fast trigger": {false, func(k *fixture) call { return k.triggerer(10, "") }},
		"one trigger":  {false, func(k *fixture) call { return k.triggerer(1, "") }},
		"one taken":    {false, func(k *fixture) call { k.finish(1); return k.taker() }},
		"claim": {false, func(k *fixture) call {
			k.store.claimFirst.Missed(1)
			return k.claimer()
		}},
		"first claim": {false, func(k *fixture) call {
			k.store.claimFirst.Hit(1)
			return k.claimer()
		}},
		"fast record": {false, func(k *fixture) call { return k.recorder(lifecycle.Succeeded, 2) }},
		"few recorded": {false, func(k *fixture) call {
			k.finish(1)
			k.start(storetest.Chain(2), "a", 3)
			k.store.recordSmall.Hit(1)
			return k.recorder(lifecycle.Succeeded, 3)
		}},
		"slow record": {true, func(k *fixture) call { return k.recorder(lifecycle.Released, 2) }},
		"cancel": {true, func(k *fixture) call {
			id := k.start(storetest.Chain(2), "a", 1)[0]
			return func(t *testing.T, k *fixture, again bool) error {
				out, err := k.store.CancelRun(k.ctx, persistence.Cancel{Run: id, Tenant: "a"})
				if err == nil && again {
					require.Equal(t, lifecycle.Canceled, out.State)
				}
				return err
			}
		}},
	} {
		for cut, committed := range map[cutting]bool{cutAnswer: true, cutRequest: false} {
			t.Run(name+"/"+map[bool]string{true: "committed", false: "lost"}[committed], func(t *testing.T) {
				t.Parallel()
				d := open(t)
				p := newCutter(t, d)
				k := newFixture(d, storetest.Chain(2))
				k.join(time.Hour)
				k.warm()
				k.start(storetest.Chain(2), "a", 20)
				do := c.make(k)
				before := value[string](d, countRows)
				p.arm(cut, c.stepwise)
				require.ErrorIs(t, do(t, k, false), persistence.ErrUnavailable)
				require.Equal(t, committed, before != value[string](d, countRows), "committed")
				k.requireSound()
				require.NoError(t, do(t, k, true))
				once := value[string](d, countRows)
				require.NotEqual(t, before, once)
				require.NoError(t, do(t, k, true))
				require.Equal(t, once, value[string](d, countRows), "a third time changes nothing")
				k.requireSound()
			})
		}
	}
}

// countRows tells whether anything was written.
const countRows = `select format('%s %s %s', (select count(*) from {schema}.workflow_runs),
	(select count(*) from {schema}.task_events), (select count(*) from {schema}.claims))`

// triggerer triggers runs, the last with a key if there is one, again and again the same.
func (k *fixture) triggerer(n int, key string) func(*testing.T, *fixture, bool) error {
	list := k.draft(storetest.Chain(2), "a", n)
	list[n-1].Key = key
	return func(t *testing.T, k *fixture, again bool) error {
		out, err := k.store.TriggerRuns(k.ctx, list, persistence.GrantRequest{})
		for again && err == nil && out.Answers[n-1].Result == persistence.KeyBusy {
			out, err = k.store.TriggerRuns(k.ctx, list, persistence.GrantRequest{}) // the cut transaction still holds the key
		}
		for _, answer := range out.Answers {
			require.Equal(t, persistence.Triggered, answer.Result)
		}
		return err
	}
}

// taker triggers a run whose first task is granted at once, again and again the
// same.
func (k *fixture) taker() func(*testing.T, *fixture, bool) error {
	list := k.draft(storetest.Chain(2), "a", 1)
	take := k.taking()
	return func(t *testing.T, k *fixture, _ bool) error {
		out, err := k.store.TriggerRuns(k.ctx, list, take)
		if err == nil {
			require.Equal(t, persistence.Triggered, out.Answers[0].Result)
			require.Len(t, out.Grants, 1)
		}
		return err
	}
}

// taking is what lets the first pod have first tasks at once.
func (k *fixture) taking() persistence.GrantRequest {
	return persistence.GrantRequest{Pod: 1, Claim: k.claimID(), Limit: 10, Handlers: k.handlers, Queues: []string{registry.DefaultQueue}}
}

// claimer claims three tasks, again and again the same.
func (k *fixture) claimer() func(*testing.T, *fixture, bool) error {
	request := k.request(1, 3)
	return func(t *testing.T, k *fixture, _ bool) error {
		out, err := k.store.ClaimTasks(k.ctx, request)
		if err == nil {
			require.Len(t, out.Grants, 3)
		}
		return err
	}
}

// recorder reports three tasks, again and again the same, and is granted up to limit of
// their children.
func (k *fixture) recorder(report lifecycle.ReportKind, limit int) func(*testing.T, *fixture, bool) error {
	record := k.completion(1, k.claim(1, 3)...)
	record.Limit, record.Handlers, record.Queues = limit, k.handlers, []string{registry.DefaultQueue}
	for i := range record.Transitions {
		record.Transitions[i].Report = report
	}
	var grants []persistence.Grant
	return func(t *testing.T, k *fixture, again bool) error {
		out, err := k.store.RecordTransitions(k.ctx, record)
		if err != nil {
			return err
		}
		if grants != nil {
			require.Equal(t, grants, out.Grants, "the same grants")
		}
		if again && report == lifecycle.Succeeded {
			grants = out.Grants
			require.Len(t, grants, limit)
		}
		return nil
	}
}

// warm has the store's only connection prepare what the tests cut.
func (k *fixture) warm() {
	k.t.Helper()
	k.start(storetest.Chain(2), "warm", 1)
	k.start(storetest.Chain(2), "warm", 1) // whose tenant is known by now
	k.start(storetest.Chain(2), "warm", 2)
	grants := k.claim(1, 2)
	k.complete(1, grants[0])
	record := k.completion(1, grants[1])
	record.Transitions[0].Report = lifecycle.Released
	k.send(record)
	k.cancel(persistence.Cancel{Run: grants[1].Task.Run})
	k.store.claimFirst.Missed(1)
	k.finish(1)
	out := k.trigger(k.draft(storetest.Chain(2), "warm", 1), k.taking())
	record = k.completion(1, out.Grants...)
	record.Limit, record.Handlers, record.Queues = 1, k.handlers, []string{registry.DefaultQueue}
	k.send(record)
	k.store.recordSmall.Missed(1)
}

// cutting says what happens to the next transaction.
type cutting uint8

const (
	cutNothing cutting = iota
	cutAnswer          // it is committed, and the answer is lost
	cutRequest         // it never arrives
)

// cutter decides which transaction is cut on the connections of a store.
type cutter struct {
	mu       sync.Mutex
	cut      cutting
	stepwise bool
}

// newCutter gives a database a store with one connection that can be cut.
func newCutter(t *testing.T, d *database) *cutter {
	t.Helper()
	c := &cutter{}
	through := d.user.Config().ConnConfig.Copy()
	through.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &cutConn{Conn: conn, cutter: c}, err
	}
	store, err := Open(t.Context(), Options{Pool: d.user, Direct: through, Schema: strings.Trim(d.schema, `"`), PoolSize: 1})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	store.podID = inTurn()
	d.store = store
	return c
}

func (c *cutter) arm(cut cutting, stepwise bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut, c.stepwise = cut, stepwise
}

// take returns what to do with a request, and disarms once that is anything.
func (c *cutter) take(request []byte) cutting {
	c.mu.Lock()
	defer c.mu.Unlock()
	cut := c.cut
	if c.stepwise && !bytes.Contains(request, []byte("commit")) && !bytes.Contains(request, commitName()) {
		return cutNothing
	}
	c.cut = cutNothing
	return cut
}

// commitName is what a driver that has prepared the commit sends instead.
func commitName() []byte {
	digest := sha256.Sum256([]byte("commit"))
	return []byte("stmtcache_" + hex.EncodeToString(digest[:24]))
}

// cutConn is a connection that a cutter breaks.
type cutConn struct {
	net.Conn

	*cutter

	swallow atomic.Bool
}

// Write implements net.Conn.
func (c *cutConn) Write(b []byte) (int, error) {
	switch c.take(b) {
	case cutRequest:
		_ = c.Close()
	case cutAnswer:
		c.swallow.Store(true)
	case cutNothing:
	}
	return c.Conn.Write(b)
}

// Read implements net.Conn.
func (c *cutConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.swallow.Load() {
			return n, err
		}
		if bytes.HasSuffix(b[:n], []byte("Z\x00\x00\x00\x05I")) { // the server waits for the next query: it has committed
			_ = c.Close()
		}
	}
}
