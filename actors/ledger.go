package actors

import (
	"time"

	"github.com/troupe-dev/troupe/messages"
)

// asideShare bounds the tasks that have given their slots back. All of them are
// lost, and executed again, if the pod dies.
const asideShare = 4

// ledger is who uses which slot for what. It is the only account of slots: the
// claimer spends what it was offered, and children granted inline take the
// slot of a parent that was answered in the same message.
//
// Iteration is over slices, so that two simulations with the same seed do the
// same in the same order.
type ledger struct {
	pools    []*poolSlots
	held     []*held
	index    map[taskKey]*held
	names    map[string]*held
	deaf     map[string]*deafAttempt
	stuckMax int
	suspects int  // held tasks that are suspects
	eased    bool // the last of them has ended
}

// poolSlots is the slots of one pool. free is the truth; offered is how many
// of them the claimer may spend. free < offered only while a claim that was
// answered late takes more than there is.
type poolSlots struct {
	name    string
	slots   int // how many there are
	free    int
	offered int
	aside   int // held tasks that have given theirs back
}

// held is one task that this pod may write for.
type held struct {
	key       taskKey
	name      string
	pool      string
	suspect   bool
	abandoned bool // reported while its function goes on
	slotless  bool // it never took a slot
	aside     bool // it has given its slot back
	pid       *PID // its run actor; nil: none executes it
	report    *messages.ReportOutcome
	progress  []byte
	at        int       // in ledger.held
	what      string    // workflow and step
	since     time.Time // when it was handed over
}

// deafAttempt is a function that goes on after its task has ended here.
type deafAttempt struct {
	pool     string
	keepSlot bool
	young    bool // it has had no time to react to the end of its context
}

func newLedger(pools []pool, stuckMax int) *ledger {
	l := &ledger{
		index: map[taskKey]*held{}, names: map[string]*held{}, deaf: map[string]*deafAttempt{},
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
	return l.pools[0] // a queue this pod does not serve: the database has granted it all the same
}

// free is the number of slots that nobody uses.
func (l *ledger) free() int {
	total := 0
	for _, p := range l.pools {
		total += max(p.free, 0)
	}
	return total
}

// spend takes one slot off what the claimer was offered.
func (l *ledger) spend(pool string) { l.pool(pool).offered-- }

// hold enters a granted task, or returns nil if it is held already.
func (l *ledger) hold(task *messages.StartTask, pool string) *held {
	key := keyOf(task.GetTask())
	if l.index[key] != nil {
		return nil
	}
	h := &held{
		key: key, name: taskName(key), pool: pool,
		suspect: task.GetSuspect(), at: len(l.held),
	}
	l.held = append(l.held, h)
	l.index[key], l.names[h.name] = h, h
	l.pool(pool).free--
	if h.suspect {
		l.suspects++
	}
	return h
}

// adopt enters a task that is this pod's and was never handed over, or returns
// nil if it was.
func (l *ledger) adopt(task *messages.Task) *held {
	key := keyOf(task)
	if l.index[key] != nil {
		return nil
	}
	h := &held{key: key, name: taskName(key), slotless: true, at: len(l.held)}
	l.held = append(l.held, h)
	l.index[key], l.names[h.name] = h, h
	return h
}

func (l *ledger) find(key taskKey) *held { return l.index[key] }

func (l *ledger) named(name string) *held { return l.names[name] }

// drop takes a task off. Its slot is free at once if its function has
// returned; a deaf one gives it up, too, up to a limit.
func (l *ledger) drop(h *held, returned bool) {
	last := len(l.held) - 1
	l.held[h.at], l.held[last].at = l.held[last], h.at
	l.held[last] = nil
	l.held = l.held[:last]
	delete(l.index, h.key)
	delete(l.names, h.name)
	if h.suspect {
		l.suspects--
	}
	if h.suspect || h.slotless { // of what was never handed over the claimer may know that it is one
		l.eased = l.suspects == 0
	}
	if h.aside {
		l.pool(h.pool).aside--
	}
	if h.slotless || h.aside {
		return
	}
	if returned {
		l.pool(h.pool).free++
		return
	}
	d := &deafAttempt{pool: h.pool, keepSlot: !h.abandoned || l.replaced() >= l.stuckMax}
	l.deaf[h.name] = d
	if !d.keepSlot {
		l.pool(h.pool).free++
	}
}

// putAside gives back the slot of a task whose function has returned, or was not called, and whose
// outcome cannot be recorded for now: it may be long until that changes. It may do so
// while fewer than asideShare times as many as the pool has slots have.
func (l *ledger) putAside(h *held) {
	p := l.pool(h.pool)
	if h.slotless || h.aside || h.abandoned || p.aside >= asideShare*p.slots {
		return
	}
	h.aside = true
	p.aside++
	p.free++
	if h.suspect {
		h.suspect = false
		l.suspects--
		l.eased = l.suspects == 0
	}
}

// running is how many held tasks have a slot, or never took one.
func (l *ledger) running() int {
	n := len(l.held)
	for _, p := range l.pools {
		n -= p.aside
	}
	return n
}

// abandon lets a deaf function whose task has ended give up its slot.
func (l *ledger) abandon(name string) {
	if d := l.deaf[name]; d != nil && d.keepSlot && l.replaced() < l.stuckMax {
		d.keepSlot = false
		l.pool(d.pool).free++
	}
}

// replaced is how many deaf functions have given up their slots.
func (l *ledger) replaced() int {
	n := 0
	for _, d := range l.deaf {
		if !d.keepSlot {
			n++
		}
	}
	return n
}

// undeafen notes that the actor of a task has ended, and with it its function.
func (l *ledger) undeafen(name string) {
	if d := l.deaf[name]; d != nil {
		delete(l.deaf, name)
		if d.keepSlot {
			l.pool(d.pool).free++
		}
	}
}

// orphan enters a function that a former incarnation called and that has not
// returned. It keeps its slot.
func (l *ledger) orphan(name, pool string) {
	l.deaf[name] = &deafAttempt{pool: pool, keepSlot: true, young: true}
	l.pool(pool).free--
}

// deafen lets an orphan give up its slot if it has not returned, up to the limit.
func (l *ledger) deafen(name string) {
	if d := l.deaf[name]; d != nil {
		d.young = false
		l.abandon(name)
	}
}

// stuck is how many functions go on that should have returned.
func (l *ledger) stuck() int {
	n := 0
	for _, d := range l.deaf {
		if !d.young {
			n++
		}
	}
	return n
}

// forgetDeaf gives up on functions whose actors are gone.
func (l *ledger) forgetDeaf() {
	for _, d := range l.deaf {
		if d.keepSlot {
			l.pool(d.pool).free++
		}
	}
	clear(l.deaf)
}

// offerAll offers all that is free, anew, in answer to the question of that
// number.
func (l *ledger) offerAll(number int64) *messages.SlotsOffered {
	offer := &messages.SlotsOffered{SuspectHeld: l.suspects > 0, Number: number}
	l.eased = false
	for _, p := range l.pools {
		p.offered = max(p.free, 0)
		offer.Pools = append(offer.Pools, &messages.PoolSlots{Pool: p.name, Free: int32(p.offered)})
	}
	return offer
}

// offerNew offers what became free since the last offer; nil: nothing.
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
	if l.eased {
		if freed == nil {
			freed = &messages.SlotsFreed{}
		}
		freed.SuspectEnded, l.eased = true, false
	}
	return freed
}

// progress notes what an attempt reported; the next pulse stores it.
func (l *ledger) progress(key taskKey, progress []byte) {
	if h := l.index[key]; h != nil {
		h.progress = progress
	}
}

// list says what is held. Progress is handed over once.
func (l *ledger) list() *messages.HeldListed {
	listed := &messages.HeldListed{}
	for _, h := range l.held {
		listed.Tasks = append(listed.Tasks, &messages.HeldTask{Task: h.key.message(), Progress: h.progress})
		h.progress = nil
	}
	return listed
}
