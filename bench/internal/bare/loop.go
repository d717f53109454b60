package bare

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/bench/internal/peer"
	"github.com/troupe-dev/troupe/workflow"
)

const (
	writers    = 2    // records at once, sharded by run
	window     = 4000 // tasks in flight
	claimMax   = 1000
	recordMax  = 1000
	triggerMax = 500
	lookEvery  = 50 * time.Millisecond // while nothing says that there is work
)

// loop is the minimal engine: each part takes whatever has accumulated while its
// last statement ran.
type loop struct {
	tables tables
	probe  *peer.Probe
	// fails is called with an error after which no part can continue.
	fails func(error)

	asked    chan request
	granted  [writers]chan []task
	kick     chan struct{} // there may be something to claim, or room for it
	inFlight atomic.Int64
	payloads sync.Map // job: output, if it has one
	stop     context.CancelFunc
	running  sync.WaitGroup
}

type request struct {
	job    peer.Job
	stored chan error
}

func newLoop(t tables, probe *peer.Probe) *loop {
	l := &loop{tables: t, probe: probe, asked: make(chan request, window), kick: make(chan struct{}, 1)}
	for i := range l.granted {
		l.granted[i] = make(chan []task, window)
	}
	l.fails = func(err error) { panic(err) } // the process is the measurement
	return l
}

// startIntake begins to store jobs, which another process executes.
func (l *loop) startIntake(ctx context.Context) context.Context {
	ctx, l.stop = context.WithCancel(ctx)
	l.running.Go(func() { l.intake(ctx) })
	return ctx
}

func (l *loop) start(ctx context.Context) {
	ctx = l.startIntake(ctx)
	l.running.Go(func() { l.claimer(ctx) })
	for i := range writers {
		l.running.Go(func() { l.writer(ctx, l.granted[i]) })
	}
}

func (l *loop) close() {
	if l.stop != nil {
		l.stop()
		l.running.Wait()
	}
	l.tables.close()
}

func (l *loop) enqueue(ctx context.Context, job peer.Job) error {
	r := request{job, make(chan error, 1)}
	select {
	case l.asked <- r:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-r.stored:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// store triggers jobs of one shape.
func (l *loop) store(ctx context.Context, jobs []peer.Job) error {
	last := int32(jobs[0].Shape.Steps() - 1)
	runs, inputs := make([]workflow.RunID, len(jobs)), make([][]byte, len(jobs))
	for i, job := range jobs {
		text, err := json.Marshal(job)
		if err != nil {
			return err
		}
		runs[i], inputs[i] = newRunID(job.ID, last), text
		if job.Payload != "" {
			l.payloads.Store(job.ID, []byte(job.Payload))
		}
	}
	return l.tables.trigger(ctx, jobs[0].Shape, runs, inputs)
}

func (l *loop) intake(ctx context.Context) {
	for {
		var batch []request
		select {
		case r := <-l.asked:
			batch = append(batch, r)
		case <-ctx.Done():
			return
		}
		for more := true; more && len(batch) < triggerMax; {
			select {
			case r := <-l.asked:
				batch = append(batch, r)
			default:
				more = false
			}
		}
		jobs := make([]peer.Job, len(batch))
		for i, r := range batch {
			jobs[i] = r.job
		}
		err := l.store(ctx, jobs)
		for _, r := range batch {
			r.stored <- err
		}
		l.wake()
	}
}

func (l *loop) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

func (l *loop) claimer(ctx context.Context) {
	for ctx.Err() == nil {
		limit := min(claimMax, window-int(l.inFlight.Load()))
		var got []task
		if limit > window/10 {
			var err error
			if got, err = l.tables.claim(ctx, limit); err != nil {
				l.broken(ctx, err)
				return
			}
			l.inFlight.Add(int64(len(got)))
			l.spread(got)
		}
		if len(got) > 0 && len(got) == limit {
			continue
		}
		select {
		case <-l.kick:
		case <-time.After(lookEvery):
		case <-ctx.Done():
		}
	}
}

func (l *loop) spread(got []task) {
	var parts [writers][]task
	for _, t := range got {
		i := int(t.run[15]) % writers
		parts[i] = append(parts[i], t)
	}
	for i, part := range parts {
		if len(part) > 0 {
			l.granted[i] <- part
		}
	}
}

func (l *loop) writer(ctx context.Context, granted <-chan []task) {
	var held []task
	for {
		if len(held) == 0 {
			select {
			case got := <-granted:
				held = append(held, got...)
			case <-ctx.Done():
				return
			}
		}
		for more := true; more && len(held) < recordMax; {
			select {
			case got := <-granted:
				held = append(held, got...)
			default:
				more = false
			}
		}
		n := min(len(held), recordMax)
		children, err := l.tables.record(ctx, held[:n], l.execute(held[:n]))
		if err != nil {
			l.broken(ctx, err)
			return
		}
		held = append(held[n:], children...)
		l.inFlight.Add(int64(len(children) - n))
		l.wake()
	}
}

// execute calls the step functions, which do nothing.
func (l *loop) execute(tasks []task) [][]byte {
	outputs := make([][]byte, len(tasks))
	for i, t := range tasks {
		job := jobOf(t.run)
		if t.step == 0 {
			l.probe.Begin(peer.Job{ID: job})
		}
		if t.step == lastOf(t.run) {
			l.probe.End(job)
		}
		outputs[i] = []byte(`"x"`)
		if payload, ok := l.payloads.LoadAndDelete(job); ok {
			outputs[i], _ = payload.([]byte) // as store put it
		}
	}
	return outputs
}

func (l *loop) broken(ctx context.Context, err error) {
	if ctx.Err() == nil {
		l.fails(err)
	}
}
