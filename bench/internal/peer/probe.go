package peer

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Probe is what the step functions of every peer report to. It is safe for
// concurrent use once the measurement has begun.
type Probe struct {
	// Started is called when a job's first function starts; may be
	// nil. It is set before the peer starts.
	Started func(Job)
	// Finished is called when a job's last function has run; may be nil.
	Finished func(id int64)

	done  atomic.Int64
	begun []atomic.Int64 // by job: Unix nanoseconds of the first function's start
	last  []atomic.Int64 // by job: of the last function's start
}

// Mark keeps instants for jobs with ids below n.
func (p *Probe) Mark(n int) {
	p.begun, p.last = make([]atomic.Int64, n), make([]atomic.Int64, n)
}

// Begin is called by the first function of a job.
func (p *Probe) Begin(job Job) {
	if p.begun != nil {
		p.begun[job.ID].CompareAndSwap(0, Now())
	}
	if p.Started != nil {
		p.Started(job)
	}
}

// End is called by the last function of a job, which may be the first too.
func (p *Probe) End(id int64) {
	if p.last != nil {
		p.last[id].CompareAndSwap(0, Now())
	}
	p.done.Add(1)
	if p.Finished != nil {
		p.Finished(id)
	}
}

// Done counts the jobs whose last function has run.
func (p *Probe) Done() int64 { return p.done.Load() }

// Begun is when the first function of a job started; 0: not yet.
func (p *Probe) Begun(id int64) int64 { return p.begun[id].Load() }

// Last is when the last function of a job started; 0: not yet.
func (p *Probe) Last(id int64) int64 { return p.last[id].Load() }

// Await waits until n jobs have run.
func (p *Probe) Await(ctx context.Context, n int64) error {
	for ticks := time.NewTicker(time.Millisecond); ; {
		if p.Done() >= n {
			ticks.Stop()
			return nil
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d jobs have run: %w", p.Done(), n, context.Cause(ctx))
		}
	}
}

// Now is the wall clock, which processes of one machine share, in nanoseconds.
func Now() int64 { return time.Now().UnixNano() }
