package storetest

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// worker is a pod of a case.
type worker struct {
	w        *world
	id       int64
	handlers []int32
}

// pod joins a pod that registers every step of the graphs; none: of all.
func (w *world) pod(graphs ...*workflow.Graph) *worker {
	w.t.Helper()
	return w.podFor(leaseTTL, graphs...)
}

func (w *world) podFor(ttl time.Duration, graphs ...*workflow.Graph) *worker {
	w.t.Helper()
	p := &worker{w: w, handlers: w.handlersOf(graphs...)}
	id, now, err := w.store.JoinPod(w.ctx, persistence.PodInfo{
		Name: "pod", Handlers: p.handlers, Queues: []string{defaultQueue}, Slots: 10, TTL: ttl, Version: "test",
		Protocol: persistence.Protocol,
	})
	require.NoError(w.t, err)
	require.Positive(w.t, id)
	require.False(w.t, now.IsZero())
	p.id = id
	return p
}

// client joins a pod that executes nothing.
func (w *world) client() int64 {
	w.t.Helper()
	id, _, err := w.store.JoinPod(w.ctx, persistence.PodInfo{Name: "client", TTL: leaseTTL, Version: "test", Protocol: persistence.Protocol})
	require.NoError(w.t, err)
	return id
}

func (w *world) handlersOf(graphs ...*workflow.Graph) []int32 {
	var handlers []int32
	for g, numbers := range w.numbers {
		if len(graphs) == 0 || slices.Contains(graphs, g) {
			handlers = append(handlers, numbers...)
		}
	}
	slices.Sort(handlers)
	return slices.Compact(handlers)
}

func (w *world) claimID() persistence.ClaimID {
	w.claims++
	var id persistence.ClaimID
	binary.BigEndian.PutUint64(id[8:], w.claims)
	return id
}

// grantRequest asks for at most limit tasks of the default queue under a claim.
func (p *worker) grantRequest(claim persistence.ClaimID, limit int) persistence.GrantRequest {
	return persistence.GrantRequest{Pod: p.id, Claim: claim, Queues: []string{defaultQueue}, Limit: limit, Handlers: p.handlers}
}

func (p *worker) taking(limit int) persistence.GrantRequest {
	return p.grantRequest(p.w.claimID(), limit)
}

func (p *worker) request(limit int) persistence.ClaimRequest {
	return persistence.ClaimRequest{GrantRequest: p.taking(limit), Suspects: true}
}

func (p *worker) requestFrom(queue string, limit int) persistence.ClaimRequest {
	request := p.request(limit)
	request.Queues = []string{queue}
	return request
}

// claimExactly claims at most limit tasks and requires that n are granted.
func (p *worker) claimExactly(limit, n int) []persistence.Grant {
	p.w.t.Helper()
	grants := p.claim(limit)
	require.Len(p.w.t, grants, n)
	return grants
}

func (p *worker) claim(limit int) []persistence.Grant {
	p.w.t.Helper()
	return p.ask(p.request(limit)).Grants
}

func (p *worker) ask(request persistence.ClaimRequest) persistence.Claimed {
	p.w.t.Helper()
	return call(p.w.store.ClaimTasks(p.w.ctx, request)).must(p.w)
}

// claimStep claims one task and requires that it is of this step.
func (p *worker) claimStep(name string) persistence.Grant {
	p.w.t.Helper()
	grants := p.claim(1)
	require.Len(p.w.t, grants, 1, "grants; want %s", name)
	require.Equal(p.w.t, name, grants[0].Step)
	return grants[0]
}

// claimAll claims whatever is ready and returns it by step name.
func (p *worker) claimAll() map[string]persistence.Grant {
	p.w.t.Helper()
	byName := map[string]persistence.Grant{}
	for _, g := range p.claim(100) {
		byName[g.Step] = g
	}
	return byName
}

// batch is a record of this pod without inline grants.
func (p *worker) batch(transitions ...persistence.Transition) persistence.Record {
	return persistence.Record{
		GrantRequest: persistence.GrantRequest{Pod: p.id, Claim: p.w.claimID()}, Transitions: transitions, MaxLost: maxLost, CancelGrace: cancelGrace,
	}
}

func (p *worker) send(record persistence.Record) persistence.Recorded {
	p.w.t.Helper()
	out := call(p.w.store.RecordTransitions(p.w.ctx, record)).must(p.w)
	require.Len(p.w.t, out.Answers, len(record.Transitions))
	return out
}

// report sends transitions and requires that each is recorded.
func (p *worker) report(transitions ...persistence.Transition) persistence.Recorded {
	p.w.t.Helper()
	out := p.send(p.batch(transitions...))
	for _, answer := range out.Answers {
		require.Equal(p.w.t, lifecycle.Moved, answer.Result)
		require.NoError(p.w.t, answer.Err)
	}
	return out
}

// complete reports tasks as completed, each with its step's name as output.
func (p *worker) complete(grants ...persistence.Grant) persistence.Recorded {
	p.w.t.Helper()
	transitions := make([]persistence.Transition, len(grants))
	for i, g := range grants {
		transitions[i] = completion(g)
	}
	return p.report(transitions...)
}

// fail reports a task as failed for good.
func (p *worker) fail(g persistence.Grant) persistence.Recorded {
	p.w.t.Helper()
	return p.report(failure(g))
}

// finish claims and completes until nothing is ready.
func (p *worker) finish() {
	p.w.t.Helper()
	for grants := p.claim(100); len(grants) > 0; grants = p.claim(100) {
		p.complete(grants...)
	}
}

// completion completes a task with its step's name as output, or with the output that is there
// before it begins.
func completion(g persistence.Grant) persistence.Transition {
	t := persistence.Transition{
		Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Succeeded, Output: []byte(`"` + g.Step + `"`),
	}
	if g.Kept {
		t.Output = g.LastProgress
	}
	return t
}

func failure(g persistence.Grant) persistence.Transition {
	return persistence.Transition{
		Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Errored, Class: "test", Error: g.Step + " broke",
	}
}

func retry(g persistence.Grant, delay time.Duration) persistence.Transition {
	t := failure(g)
	t.Retry, t.RetryIn = true, delay
	return t
}

// choose completes a task with the result of conditions: the children named
// are skipped.
func choose(g persistence.Grant, skipped ...string) persistence.Transition {
	t := completion(g)
	for _, name := range skipped {
		t.Edges = append(t.Edges, persistence.EdgeResult{Child: name, Flags: lifecycle.FlagSkip})
	}
	return t
}

// renew renews a pod's lease, holding the given tasks.
func (p *worker) renew(held ...persistence.Grant) persistence.Renewed {
	p.w.t.Helper()
	renewal := persistence.Renewal{Pod: p.id, TTL: leaseTTL}
	for _, g := range held {
		renewal.Held = append(renewal.Held, persistence.Held{Task: g.Task, Epoch: g.Epoch})
	}
	return call(p.w.store.RenewPod(p.w.ctx, renewal)).must(p.w)
}
