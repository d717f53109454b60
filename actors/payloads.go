package actors

import (
	"slices"
	"sync"
	"time"
)

// payloads counts the bytes of payloads that the tasks of a pod hold in memory: read
// inputs, inputs in grants, and outputs to report. It bounds the reads so that the sum
// stays within a limit. It is safe for concurrent use.
type payloads struct {
	limit int64
	grant func(to *PID) // tells a run actor that its permit is granted

	mu    sync.Mutex
	read  int64     // bytes of permits that are granted, of steps that do not wait
	other int64     // all other bytes that are held; no permit waits until these are given back
	queue []*permit // permits that wait, oldest first
	told  time.Time // when the log was last told that tasks wait
}

// permit is the right of one attempt to read payloads.
type permit struct {
	to       *PID
	bytes    int64
	granted  bool
	waits    bool // the step function waits for another run
	detached bool // the step function has outlived its context or its actor: it may never return
	over     bool // it was given back
}

// aside reports whether the bytes of a permit do not count as read.
func (x *permit) aside() bool { return x.waits || x.detached }

// payloadsGranted tells a run actor that it may read.
type payloadsGranted struct{}

// payloadsQuiet is the time between two lines of the log about tasks that wait.
const payloadsQuiet = time.Minute

func newPayloads(limit int64, grant func(to *PID)) *payloads {
	return &payloads{limit: limit, grant: grant}
}

// request asks for the right to read so many bytes. If it is not granted at once, the
// actor gets payloadsGranted later, in the order of requests: many small tasks do not keep
// a large one out.
func (p *payloads) request(to *PID, bytes int64) *permit {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := &permit{to: to, bytes: bytes}
	if len(p.queue) > 0 || !p.fits(x) {
		p.queue = append(p.queue, x)
		return x
	}
	p.give(x)
	return x
}

// fits reports whether a permit can be granted. With p.read == 0 any can: its task may need
// more than the limit, and outputs that are not recorded must not keep tasks out for as long
// as the database is away. Permits of step functions that wait for a run, or are detached,
// are not in p.read. They count for the limit alone.
func (p *payloads) fits(x *permit) bool {
	return p.read == 0 || p.read+p.other+x.bytes <= p.limit
}

func (p *payloads) give(x *permit) {
	x.granted = true
	p.read += x.bytes
}

// isGranted reports whether a permit is granted.
func (p *payloads) isGranted(x *permit) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return x.granted
}

// release gives a permit back, or leaves the queue. nil and a released permit change
// nothing.
func (p *payloads) release(x *permit) {
	if x == nil {
		return
	}
	p.change(func() {
		switch {
		case x.over:
		case !x.granted:
			p.queue = slices.DeleteFunc(p.queue, func(other *permit) bool { return other == x })
		case x.aside():
			p.other -= x.bytes
		default:
			p.read -= x.bytes
		}
		x.over = true
	})
}

// wait notes whether a step function waits for another run, which may need the memory that
// the function holds: its bytes keep no permit from being the only one. nil changes nothing.
func (p *payloads) wait(x *permit, yes bool) { p.mark(x, func() { x.waits = yes }) }

// detach notes that a step function may never return: its bytes keep no permit from being
// the only one, whatever the function waits for later. nil changes nothing.
func (p *payloads) detach(x *permit) { p.mark(x, func() { x.detached = true }) }

// mark moves the bytes of a permit between read and other bytes.
func (p *payloads) mark(x *permit, how func()) {
	if x == nil {
		return
	}
	p.change(func() {
		if x.over || !x.granted {
			return
		}
		before := x.aside()
		how()
		switch after := x.aside(); {
		case after == before:
		case after:
			p.read, p.other = p.read-x.bytes, p.other+x.bytes
		default:
			p.read, p.other = p.read+x.bytes, p.other-x.bytes
		}
	})
}

// hold counts bytes that are held already, or released if negative, without waiting.
func (p *payloads) hold(bytes int64) {
	if bytes != 0 {
		p.change(func() { p.other += bytes })
	}
}

// change changes the account and grants the permits that fit then.
func (p *payloads) change(how func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how()
	for len(p.queue) > 0 && p.fits(p.queue[0]) {
		x := p.queue[0]
		p.queue = p.queue[1:]
		p.give(x)
		p.grant(x.to)
	}
}

// held returns how many bytes are held, and how many tasks wait to read more.
func (p *payloads) held() (bytes int64, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.read + p.other, len(p.queue)
}

// tell reports whether to log that tasks wait.
func (p *payloads) tell(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	tell := p.told.IsZero() || now.Sub(p.told) >= payloadsQuiet
	if tell {
		p.told = now
	}
	return tell
}
