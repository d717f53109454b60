package actors

import (
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
)

// awaitingRecordShare bounds the tasks of a pool that have released their slots and wait to
// be recorded, as a multiple of its slots. All of them are executed again if the pod dies.
const awaitingRecordShare = 4

// ledger is the only account of slots: which task uses which slot. The claimer spends the
// slots that it was offered. A child granted inline takes the slot of a parent that was
// answered in the same message.
//
// Iteration is over slices, so that two simulations with the same seed do the
// same in the same order.
type ledger struct {
	pools        []*poolSlots
	held         []*held
	index        map[taskKey]*held
	unresponsive map[string]*unresponsive // by the names of run actors
	stuckMax     int
	suspects     int  // held tasks that are suspects
	suspectEnded bool // the last suspect has ended
}

// poolSlots is the slots of one pool. free is the truth; offered is how many of them the
// claimer may spend. free < offered only while a claim that was answered late takes more
// slots than are free.
type poolSlots struct {
	name           string
	slots          int // how many there are
	free           int
	offered        int
	awaitingRecord int // held tasks that have released their slots
}

// held is one task that this pod may write for.
type held struct {
	key            taskKey
	name           string
	pool           string
	suspect        bool
	ofMachine      bool // a machine, or started by one, which may hear of a cancel and continue
	abandoned      bool // reported while its function runs
	withoutSlot    bool // it never took a slot
	awaitingRecord bool // it has released its slot
	pid            *PID // its run actor; nil: none executes it
	report         *messages.ReportOutcome
	progress       []byte
	at             int       // in ledger.held
	what           string    // workflow and step
	since          time.Time // when it was handed over
}

// unresponsive is a function that still runs after its task has ended here.
type unresponsive struct {
	pool     string
	keepSlot bool
	young    bool // it has had no time to react to the end of its context
}

func newLedger(pools []pool, stuckMax int) *ledger {
	l := &ledger{
		index: map[taskKey]*held{}, unresponsive: map[string]*unresponsive{},
		stuckMax: stuckMax,
	}
	for _, p := range pools {
		l.pools = append(l.pools, &poolSlots{name: p.name, slots: p.slots, free: p.slots})
	}
	return l
}

func (l *ledger) pool(name string) *poolSlots {
	for _, p := range l.pools {
		if p.name == name {
			return p
		}
	}
	return l.pools[0] // a task of a queue that this pod does not serve
}

// free is the number of unused slots.
func (l *ledger) free() int {
	total := 0
	for _, p := range l.pools {
		total += max(p.free, 0)
	}
	return total
}

// spend notes that the claimer has used an offered slot.
func (l *ledger) spend(pool string) { l.pool(pool).offered-- }

// hold enters a granted task, or returns nil if it is held already.
func (l *ledger) hold(task *messages.StartTask, pool string) *held {
	key := keyOf(task.GetTask())
	if l.index[key] != nil {
		return nil
	}
	_, spawned := lifecycle.SpawnedAs(task.GetStepName())
	h := &held{
		key: key, name: taskName(key), pool: pool,
		suspect: task.GetSuspect(), ofMachine: spawned > 0 || task.GetMachine() != nil, at: len(l.held),
	}
	l.held = append(l.held, h)
	l.index[key] = h
	l.pool(pool).free--
	if h.suspect {
		l.suspects++
	}
	return h
}

// adopt enters a task of this pod that was never handed over, or returns nil if it was.
func (l *ledger) adopt(task *messages.Task) *held {
	key := keyOf(task)
	if l.index[key] != nil {
		return nil
	}
	h := &held{key: key, name: taskName(key), withoutSlot: true, at: len(l.held)}
	l.held = append(l.held, h)
	l.index[key] = h
	return h
}

func (l *ledger) find(key taskKey) *held { return l.index[key] }

// named returns the held task whose run actor has that name; nil: none.
func (l *ledger) named(name string) *held { return l.index[keyNamed(name)] }

// drop removes a task. Its slot is free at once if its function has returned. An
// unresponsive function gives up its slot as well, up to a limit.
func (l *ledger) drop(h *held, returned bool) {
	last := len(l.held) - 1
	l.held[h.at], l.held[last].at = l.held[last], h.at
	l.held[last] = nil
	l.held = l.held[:last]
	delete(l.index, h.key)
	if h.suspect {
		l.suspects--
	}
	if h.suspect || h.withoutSlot { // a task that was never handed over may be a suspect
		l.suspectEnded = l.suspects == 0
	}
	if h.awaitingRecord {
		l.pool(h.pool).awaitingRecord--
	}
	if h.withoutSlot || h.awaitingRecord {
		return
	}
	if returned {
		l.pool(h.pool).free++
		return
	}
	u := &unresponsive{pool: h.pool, keepSlot: !h.abandoned || l.replaced() >= l.stuckMax}
	l.unresponsive[h.name] = u
	if !u.keepSlot {
		l.pool(h.pool).free++
	}
}

// releaseSlot frees the slot of a task that waits to be recorded, which may take long: its
// function has returned, or was not called.
func (l *ledger) releaseSlot(h *held) {
	p := l.pool(h.pool)
	if h.withoutSlot || h.awaitingRecord || h.abandoned || p.awaitingRecord >= awaitingRecordShare*p.slots {
		return
	}
	h.awaitingRecord = true
	p.awaitingRecord++
	p.free++
	if h.suspect {
		h.suspect = false
		l.suspects--
		l.suspectEnded = l.suspects == 0
	}
}

// running is how many held tasks do not wait to be recorded.
func (l *ledger) running() int {
	n := len(l.held)
	for _, p := range l.pools {
		n -= p.awaitingRecord
	}
	return n
}

// abandon lets an unresponsive function whose task has ended give up its slot.
func (l *ledger) abandon(name string) {
	if u := l.unresponsive[name]; u != nil && u.keepSlot && l.replaced() < l.stuckMax {
		u.keepSlot = false
		l.pool(u.pool).free++
	}
}

// replaced is how many unresponsive functions have given up their slots.
func (l *ledger) replaced() int {
	n := 0
	for _, u := range l.unresponsive {
		if !u.keepSlot {
			n++
		}
	}
	return n
}

// returned notes that the function of a task that has ended here has returned, and reports
// whether it was unresponsive.
func (l *ledger) returned(name string) bool {
	u := l.unresponsive[name]
	if u == nil {
		return false
	}
	delete(l.unresponsive, name)
	if u.keepSlot {
		l.pool(u.pool).free++
	}
	return true
}

// detached enters a function that a former incarnation called and that has not
// returned. It keeps its slot.
func (l *ledger) detached(name, pool string) {
	l.unresponsive[name] = &unresponsive{pool: pool, keepSlot: true, young: true}
	l.pool(pool).free--
}

// overdue lets a detached function that has not returned give up its slot, up to the limit.
func (l *ledger) overdue(name string) {
	if u := l.unresponsive[name]; u != nil {
		u.young = false
		l.abandon(name)
	}
}

// stuck is how many functions run that should have returned.
func (l *ledger) stuck() int {
	n := 0
	for _, u := range l.unresponsive {
		if !u.young {
			n++
		}
	}
	return n
}

// forgetUnresponsive removes the functions whose run actors are gone.
func (l *ledger) forgetUnresponsive() {
	for _, u := range l.unresponsive {
		if u.keepSlot {
			l.pool(u.pool).free++
		}
	}
	clear(l.unresponsive)
}

// offerAll offers all free slots, in answer to the OfferSlots of that number.
func (l *ledger) offerAll(number int64) *messages.SlotsOffered {
	offer := &messages.SlotsOffered{SuspectHeld: l.suspects > 0, Number: number}
	l.suspectEnded = false
	for _, p := range l.pools {
		p.offered = max(p.free, 0)
		offer.Pools = append(offer.Pools, &messages.PoolSlots{Pool: p.name, Free: int32(p.offered)})
	}
	return offer
}

// offerNew offers the slots that became free since the last offer; nil: none, and no suspect ended.
func (l *ledger) offerNew() *messages.SlotsFreed {
	var freed *messages.SlotsFreed
	for _, p := range l.pools {
		if p.free > p.offered {
			if freed == nil {
				freed = &messages.SlotsFreed{}
			}
			freed.Pools = append(freed.Pools, &messages.PoolSlots{Pool: p.name, Free: int32(p.free - p.offered)})
			p.offered = p.free
		}
	}
	if l.suspectEnded {
		if freed == nil {
			freed = &messages.SlotsFreed{}
		}
		freed.SuspectEnded, l.suspectEnded = true, false
	}
	return freed
}

// progress notes what an attempt reported; the next pulse stores it.
func (l *ledger) progress(key taskKey, progress []byte) {
	if h := l.index[key]; h != nil {
		h.progress = progress
	}
}

// list returns the held tasks. Progress is handed over once.
func (l *ledger) list() *messages.HeldListed {
	listed := &messages.HeldListed{}
	for _, h := range l.held {
		listed.Tasks = append(listed.Tasks, &messages.HeldTask{Task: h.key.message(), Progress: h.progress})
		h.progress = nil
	}
	return listed
}
