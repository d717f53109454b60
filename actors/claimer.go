package actors

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// claimer claims ready tasks when it is woken, never more than there are free
// slots. It makes one claim at a time; queues take turns.
//
// Owns: the slots that runs has offered, and reservations of some for the intake and the
// journal; what is known of each queue; the claim under way.
// Parent: pod.
// Accepts: WorkReady, SlotsOffered, SlotsFreed, ReserveSlots, SlotsReleased,
// PodsCounted, LeaseFenced, LeaseRestored, StopClaiming.
// Sends: OfferSlots, SlotsReserved, StartTasks, ClaimingStopped, CheckCancels.
// On failure: restart with backoff. A claim whose outcome is unknown is repeated
// under its claim id before the next claim.
type claimer struct {
	base
	pod       int64
	store     persistence.Queue
	carryover *claimerState
	txPause   txPause
	queues    []*queueScan
	turn      int            // index of the queue that is tried first
	free      map[string]int // by pool, without what claims under way may take
	offered   bool           // the last OfferSlots was answered
	question  int64          // its number; 0: it was answered
	suspect   bool           // a suspect is being executed
	pods      int
	order     cluster.Order
	call      call
}

// claimerState is what survives a restart of the claimer.
type claimerState struct {
	unknown      *openClaim                 // not answered yet
	reservations map[requester]*reservation // not released yet
	fenced       bool                       // the lease may have run out
	stopping     bool
	told         bool // ClaimingStopped was sent
	limit        vitals.BatchLimit
}

// openClaim is one claim until it is answered.
type openClaim struct {
	request persistence.ClaimRequest
	pool    string
	slots   int // taken off the free ones: the limit of the first try
	asked   time.Time
	full    bool // scans the whole queue
}

// Waits of the claimer.
const (
	// ownEcho is how long a wake waits for another claim if it is likely an echo of a
	// transaction of this pod.
	ownEcho = 20 * time.Millisecond
	// standInPause is the least time between a claim and a claim in place of other pods:
	// under load some pod claims all the time.
	standInPause = 100 * time.Millisecond
	// ownMemory is how long a transaction of this pod is expected to echo.
	ownMemory = time.Second
)

func spawnClaimer(rt *runtime, ports *Ports, pod int64, h *claimerState) func() receiver {
	return func() receiver {
		a := &claimer{base: base{rt, rt.addresses.claimer}, pod: pod, store: ports.Store, carryover: h, free: map[string]int{}, pods: 1}
		for _, p := range rt.config.pools() {
			for _, name := range p.queues {
				a.queues = append(a.queues, &queueScan{name: name, pool: p.name, woken: true})
			}
		}
		return a
	}
}

// Receive implements protoactor's Actor.
func (a *claimer) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		a.askForSlots()
		a.repeatReservations()
	case *messages.SlotsOffered:
		a.onSlotsOffered(msg)
	case *messages.SlotsFreed:
		a.onSlotsFreed(msg)
	case *messages.ReserveSlots:
		a.onReserveSlots(msg)
	case *messages.SlotsReleased:
		a.onSlotsReleased(msg)
	case *messages.WorkReady:
		a.onWorkReady(msg)
	case *happened:
		a.handle(msg)
	case *messages.PodsCounted:
		a.pods = int(msg.GetPods())
		a.order = cluster.Order{Idle: int(msg.GetIdle()), Place: int(msg.GetPlace())}
	case *messages.LeaseFenced:
		a.carryover.fenced = true
	case *messages.LeaseRestored:
		a.onLeaseRestored()
	case *messages.StopClaiming:
		a.carryover.stopping = true
		a.claim()
	case *restarting, *stopping, *stopped:
	default:
		a.rt.unknown("claimer", msg)
	}
}

// askForSlots starts a new account of slots. Nothing is claimed until the answer.
func (a *claimer) askForSlots() {
	a.offered, a.question = false, a.rt.numbers.next()
	a.rt.send(a.rt.addresses.runs, &messages.OfferSlots{Number: a.question})
}

// onSlotsOffered starts a new account with all free slots, less those of reservations and
// of a claim whose outcome is unknown. An answer to an older question is dropped, as it may
// not count tasks that were handed over since.
func (a *claimer) onSlotsOffered(m *messages.SlotsOffered) {
	switch m.GetNumber() {
	case 0: // runs has started
		a.askForSlots()
		return
	case a.question:
	default:
		return
	}
	a.question = 0
	a.offered, a.suspect = true, m.GetSuspectHeld()
	for _, p := range m.GetPools() {
		a.free[p.GetPool()] = int(p.GetFree())
	}
	for _, r := range a.carryover.reservations {
		a.free[r.pool] -= r.slots
	}
	if open := a.carryover.unknown; open != nil {
		a.free[open.pool] -= open.slots
		if !a.call.open() {
			a.send(open)
		}
	}
	a.claim()
}

func (a *claimer) onSlotsFreed(m *messages.SlotsFreed) {
	for _, p := range m.GetPools() {
		a.free[p.GetPool()] += int(p.GetFree())
	}
	if m.GetSuspectEnded() {
		if a.suspect { // it may be another suspect, on its way to runs
			a.askForSlots()
		}
		a.resetScans() // the skipped suspects stand below scanFrom
	}
	// The task that ended may have kept its tenant at the limit.
	if m.GetSuspectEnded() || a.rt.config.TenantLimit > 0 {
		a.wakeAll()
		return
	}
	a.claim()
}

func (a *claimer) onLeaseRestored() {
	if a.carryover.fenced {
		a.carryover.fenced = false
		a.wakeAll()
	}
}

// claim claims from the next woken queue whose pool has free slots.
func (a *claimer) claim() {
	if a.carryover.unknown != nil {
		return
	}
	if a.carryover.stopping {
		a.tellStopped()
		return
	}
	if !a.offered || a.carryover.fenced || len(a.claimable()) == 0 {
		return
	}
	for i := range a.queues {
		q := a.queues[(a.turn+i)%len(a.queues)]
		if free := a.free[q.pool]; q.woken && free > 0 {
			a.turn = (a.turn + i + 1) % len(a.queues)
			a.open(q, min(free, a.rt.config.ClaimBatch, persistence.ClaimMax))
			return
		}
	}
}

func (a *claimer) open(q *queueScan, limit int) {
	now, limit := a.rt.now(), a.rt.batch("claim one", limit)
	after := q.from(now)
	if a.rt.buggify("claim from the start") {
		after = 0
	}
	if after == 0 {
		q.standInAt = time.Time{}
	}
	open := &openClaim{
		request: persistence.ClaimRequest{
			GrantRequest: persistence.GrantRequest{Pod: a.pod, Claim: a.rt.newClaimID(), Queues: []string{q.name}, Limit: limit, Handlers: a.claimable(), TenantLimit: a.rt.config.TenantLimit},
			Suspects:     !a.suspect, After: after,
		},
		pool: q.pool, slots: limit, asked: now, full: after == 0,
	}
	q.woken, q.asked = false, now
	a.free[q.pool] -= limit
	a.carryover.unknown = open
	a.send(open)
}

// send asks for as many tasks as the server is likely to grant in time. Repeated under the
// same claim id, a claim returns what an earlier try with a larger limit was granted.
func (a *claimer) send(open *openClaim) {
	open.asked = a.rt.now()
	open.request.Limit = a.carryover.limit.Begin(open.slots, open.asked)
	request := open.request
	ask(&a.base, &a.call, "claim_tasks", storeTimeout, func(ctx context.Context) (persistence.Claimed, error) {
		return a.store.ClaimTasks(ctx, request)
	}, a.onClaimed)
}

// onClaimed hands the granted tasks over. A claim whose outcome is unknown is repeated
// under the same id until the database answers.
func (a *claimer) onClaimed(claimed persistence.Claimed, err error) {
	open := a.carryover.unknown
	a.carryover.limit.Ended(max(len(claimed.Grants), claimed.Scanned), a.rt.now(), err)
	a.rt.refusedAsDead(err)
	if wait, failed := a.call.failed(a.rt, "claim_tasks", err); failed {
		a.later(wait, func() {
			if !a.call.open() && a.carryover.unknown == open {
				a.send(open)
			}
		})
		return
	}
	a.rt.status.with((*podFacts).reportedAlive)
	a.note(open, &claimed)
	a.free[open.pool] += open.slots - len(claimed.Grants)
	a.start(startTasks(claimed.Grants, func(int32) string { return open.request.Queue() }))
	a.carryover.unknown = nil // not before the tasks are handed over
	a.claim()
}

// start hands granted tasks over.
func (a *claimer) start(tasks []*messages.StartTask) {
	if len(tasks) == 0 {
		return
	}
	a.rt.send(a.rt.addresses.runs, &messages.StartTasks{Tasks: tasks})
	if a.question != 0 {
		a.askForSlots() // the answer under way does not count these tasks
	}
}

// note learns from a claim: where the next one begins, and how long tasks waited.
func (a *claimer) note(open *openClaim, claimed *persistence.Claimed) {
	request := &open.request
	a.rt.recorder.add(MetricClaims, 1, request.Queue())
	a.rt.recorder.observe(MetricClaimSize, float64(len(claimed.Grants)), request.Queue())
	a.rt.recorder.add(MetricClaimDiscarded, float64(claimed.Discarded), request.Queue())
	for i := range claimed.Grants {
		g := &claimed.Grants[i]
		a.suspect = a.suspect || g.Suspect
		if !a.rt.recorder.none {
			a.rt.recorder.observe(MetricQueueWait, g.StartedAt.Sub(g.QueuedAt).Seconds(), g.Tenant)
		}
	}
	if i := slices.IndexFunc(a.queues, func(q *queueScan) bool { return q.name == request.Queue() }); i >= 0 {
		q := a.queues[i]
		a.wakeForFullScan(q, q.learn(open, claimed, a.rt.now()))
	}
}

func (a *claimer) tellStopped() {
	if !a.carryover.told && len(a.carryover.reservations) == 0 {
		a.carryover.told = true
		a.rt.send(a.rt.addresses.pod, &messages.ClaimingStopped{})
	}
}
