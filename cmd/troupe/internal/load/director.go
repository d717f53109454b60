package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/testbed"
)

const (
	readyTimeout = 30 * time.Second
	// acquaintance is how long pods have to learn of each other, which they do
	// with their pulse.
	acquaintance = 6 * time.Second
	// beginIn is how long before its beginning the pods are told of the load.
	beginIn = 50 * time.Millisecond
	// lookEvery is the director's pace: of the display, and of its own looks.
	lookEvery = 100 * time.Millisecond
	// stallLook is the silence after which the database is asked what has ended.
	stallLook = 2 * time.Second
	// stallMax is the silence after which the rest is given up.
	stallMax = 30 * time.Second
)

// director starts the pods, passes on what they tell each other, and sees how
// the load goes. Everything happens on one goroutine.
type director struct {
	options Options
	bed     *testbed.Bed
	display *display
	pods    []*process
	heard   chan heard

	tallies  []tally
	told     []int64 // runs that were returned to each pod
	forgiven int64   // runs that ended and that no pod saw end
	before   census
	began    time.Time
	halted   bool // by a signal

	reached int64     // the sum of what was triggered, executed and ended
	moved   time.Time // when it last grew
	looked  time.Time // the same, or when the database was last asked
}

// start launches the pods and waits until each is ready.
func (d *director) start(ctx context.Context) error {
	d.heard = make(chan heard, 4*d.options.Pods)
	d.tallies, d.told = make([]tally, d.options.Pods), make([]int64, d.options.Pods)
	d.display.say("starting %s", plural(d.options.Pods, "pod"))
	for i := range d.options.Pods {
		p, err := launch(d.options, d.bed.URL, i, d.heard)
		if p != nil {
			d.pods = append(d.pods, p)
		}
		if err != nil {
			return err
		}
	}
	ready, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("the pods were not ready within %v", readyTimeout))
	defer cancel()
	for waiting := len(d.pods); waiting > 0; {
		said, err := d.hear(ready)
		if err != nil {
			return err
		}
		if said.Ready {
			waiting--
		}
	}
	if d.options.Pods == 1 {
		return nil
	}
	d.display.say("the pods are ready; they have %v to learn of each other", acquaintance)
	return pause(ctx, acquaintance)
}

// hear waits for a line. A pod that ends uncalled is an error.
func (d *director) hear(ctx context.Context) (heard, error) {
	select {
	case said := <-d.heard:
		return said, d.judge(said)
	case <-ctx.Done():
		return heard{}, context.Cause(ctx)
	}
}

func (d *director) judge(said heard) error {
	p := d.pods[said.from]
	switch {
	case said.Error != "":
		return fmt.Errorf("%s: %s", p.name, said.Error)
	case said.gone && !p.finished.Load():
		return p.crash()
	case said.Tally != nil:
		d.tallies[said.from] = *said.Tally
	}
	return nil
}

func (d *director) tellAll(next instruction) error {
	var errs []error
	for _, p := range d.pods {
		errs = append(errs, p.tell(next))
	}
	return errors.Join(errs...)
}

// perform puts the load on the pods and waits until every run has ended. The
// end of ctx stops the load, and not the runs.
func (d *director) perform(ctx context.Context) error {
	lasting := context.WithoutCancel(ctx)
	var err error
	if d.before, err = takeCensus(ctx, d.bed.Pool); err != nil {
		return err
	}
	d.began = time.Now().Add(beginIn)
	d.moved, d.looked = d.began, d.began
	if err := d.tellAll(instruction{Begin: d.began.UnixNano()}); err != nil {
		return err
	}
	looks := time.NewTicker(lookEvery)
	defer looks.Stop()
	returns := time.NewTicker(returnEvery(d.options.Pods))
	defer returns.Stop()
	if d.options.Pods == 1 || d.options.Rate > 0 {
		returns.Stop() // no pod waits for a permit of another
	}
	for stopping := ctx.Done(); ; {
		select {
		case said := <-d.heard:
			if err := d.judge(said); err != nil {
				return err
			}
		case <-returns.C:
			if err := d.handOn(); err != nil {
				return err
			}
		case <-stopping:
			stopping, d.halted = nil, true
			d.display.say("stopping the load; open runs end (again: end at once)")
			if err := d.tellAll(instruction{Halt: true}); err != nil {
				return err
			}
		case <-looks.C:
			over, err := d.look(lasting)
			if err != nil || over {
				return err
			}
		}
	}
}

// handOn tells each pod how many of its runs others have seen end. The
// owner of a run whose end was not seen is unknown: every pod gets its share of those,
// rounded up, so that none waits for ever.
func (d *director) handOn() error {
	pods := int64(len(d.pods))
	for i, p := range d.pods {
		back := (d.forgiven + pods - 1) / pods
		for j := range d.tallies {
			if ends := d.tallies[j].Ends; j != i && i < len(ends) {
				back += ends[i]
			}
		}
		if back == d.told[i] {
			continue
		}
		d.told[i] = back
		if err := p.tell(instruction{Returned: back}); err != nil {
			return err
		}
	}
	return nil
}

// look shows the progress, and reports whether all is over.
func (d *director) look(ctx context.Context) (over bool, err error) {
	now := time.Now()
	all := d.sum()
	if reached := all.Triggered + all.Steps + all.Retried + all.ended(); reached != d.reached {
		d.reached, d.moved, d.looked = reached, now, now
	}
	d.display.show(progress{load: d.options.Load, passed: now.Sub(d.began), sum: all, forgiven: d.forgiven, halted: d.halted})
	ended := all.ended() + d.forgiven
	quiet := now.Sub(d.looked) >= stallLook
	if !quiet && !(all.Idle && ended >= all.Triggered) {
		return false, nil
	}
	d.looked = now
	counted, err := takeCensus(ctx, d.bed.Pool)
	if err != nil {
		return false, err
	}
	counted = counted.since(d.before)
	if missing := counted.ended() - ended; quiet && missing > 0 {
		d.forgiven += missing
		d.moved = now
		if err := d.handOn(); err != nil {
			return false, err
		}
	}
	patience := stallMax + 2*d.options.StepLatency.Most
	return all.Idle && counted.Open == 0 || now.Sub(d.moved) > patience, nil
}

// sum adds up the tallies.
func (d *director) sum() tally {
	all := tally{Idle: true, Ends: make([]int64, d.options.Pods)}
	for _, t := range d.tallies {
		all.Triggered += t.Triggered
		all.Refused += t.Refused
		if all.Refusal == "" {
			all.Refusal = t.Refusal
		}
		all.Steps += t.Steps
		all.Elements += t.Elements
		all.Retried += t.Retried
		all.Failed += t.Failed
		all.Errored += t.Errored
		all.Lost += t.Lost
		for i, n := range t.Ends {
			all.Ends[i] += n
		}
		all.Idle = all.Idle && t.Idle
		all.LastEnd = max(all.LastEnd, t.LastEnd)
	}
	return all
}

// finish asks the pods for their accounts, and waits for their ends.
func (d *director) finish(ctx context.Context) ([]account, error) {
	for _, p := range d.pods {
		p.finished.Store(true)
	}
	if err := d.tellAll(instruction{Finish: true}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*stopGrace, fmt.Errorf("the pods did not stop within %v", 2*stopGrace))
	defer cancel()
	accounts, missing := make([]account, len(d.pods)), len(d.pods)
	for gone := 0; gone < len(d.pods); {
		said, err := d.hear(ctx)
		switch {
		case err != nil:
			return nil, err
		case said.Account != nil:
			accounts[said.from] = *said.Account
			missing--
		case said.gone:
			gone++
		}
	}
	if missing > 0 {
		for _, p := range d.pods {
			if !p.command.ProcessState.Success() {
				return nil, p.crash()
			}
		}
		return nil, fmt.Errorf("%s ended without an account", output.Count(missing, "pod"))
	}
	return accounts, nil
}

// end leaves no process behind.
func (d *director) end() {
	go func() { // a pod that ends must be able to say so
		for range d.heard {
		}
	}()
	for _, p := range d.pods {
		p.end()
	}
	close(d.heard)
}
