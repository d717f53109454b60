package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe"
)

// awaitMax is how long a caller waits for one run; a run that takes longer is
// noted as stuck.
const awaitMax = 30 * time.Second

// call triggers runs and waits for each, until the load is to end.
func (p *podProcess) call(ctx context.Context) {
	for n := p.shapes.calls.Add(1); !p.isQuiet() && ctx.Err() == nil; n = p.shapes.calls.Add(1) {
		key := fmt.Sprintf("%s-%d-%d", p.spec.Name, os.Getpid(), n)
		if p.spec.Cancels && n%cancelOneIn == 0 {
			p.cancelOne(ctx, n, "endless", key)
			continue
		}
		if p.spec.Signals && n%2 == 0 {
			p.open(ctx, n/2, key)
			continue
		}
		if p.spec.Children && n%2 == 0 {
			p.beget(ctx, n/2, key)
			continue
		}
		if p.spec.Maps && n%2 == 0 {
			p.spread(ctx, n/2, key)
			continue
		}
		if p.spec.Machines && n%2 == 0 {
			if run := p.store(ctx, machineName, key, troupe.Tenant("tenant-0")); run != nil {
				p.await(ctx, run, key)
			}
			continue
		}
		run := p.triggerSingle(ctx, n, key)
		if run == nil {
			continue
		}
		p.await(ctx, run, key)
	}
}

func (p *podProcess) isQuiet() bool {
	select {
	case <-p.quiet:
		return true
	default:
		return false
	}
}

// triggerSingle triggers a run of the next shape, and asks again under the same
// key while it cannot know whether it was stored. It returns nil if the pod
// stops, or if the caller's own transaction failed.
func (p *podProcess) triggerSingle(ctx context.Context, n int64, key string) *troupe.Run[string] {
	tenant := troupe.Tenant(fmt.Sprintf("tenant-%d", n%5))
	if n%int64(len(loadShapes)+1) == 0 {
		run, err := p.triggerInTx(ctx, key, tenant)
		if err != nil {
			p.ledger.note("unknown", key, "tx")
			_ = pause(ctx, 20*time.Millisecond) // the caller looks at ctx itself
			return nil
		}
		p.ledger.note("acked", run.ID().String(), "tx")
		return run
	}
	return p.store(ctx, loadShapes[n%int64(len(loadShapes))], key, tenant)
}

// store triggers a run, and asks again while it cannot know. It returns nil if the
// pod stops.
func (p *podProcess) store(ctx context.Context, shape, key string, tenant troupe.TriggerOption) *troupe.Run[string] {
	for ctx.Err() == nil {
		run, err := p.shapes.byName(shape).RunNoWait(ctx, key, troupe.Key(key), tenant)
		if err == nil {
			p.ledger.note("acked", run.ID().String(), shape)
			return run
		}
		if refused := new(troupe.TriggerError); errors.As(err, &refused) && !errors.Is(err, troupe.ErrUnavailable) || errors.Is(err, troupe.ErrNotStarted) {
			return nil // the pod stops
		}
		_ = pause(ctx, 20*time.Millisecond) // the loop looks at ctx itself
	}
	return nil
}

// triggerInTx stores a row of the caller's own and the trigger in one
// transaction.
func (p *podProcess) triggerInTx(ctx context.Context, key string, tenant troupe.TriggerOption) (run *troupe.Run[string], err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if run, err = p.shapes.byName("tx").TriggerTx(ctx, tx, key, tenant); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "insert into public.orders (run) values ($1)", run.ID().String())
		return err
	})
	return run, err
}

// cancelOneIn is how many runs a caller triggers for each one that it cancels.
const cancelOneIn = 5

// cancelOne triggers a run that would take an hour, asks to cancel it until that is
// acknowledged, and waits for its end.
func (p *podProcess) cancelOne(ctx context.Context, n int64, shape, key string) {
	run := p.store(ctx, shape, key, troupe.Tenant(fmt.Sprintf("tenant-%d", n%5)))
	if run == nil {
		return
	}
	_ = pause(ctx, time.Duration(n%10)*5*time.Millisecond) // the loop looks at ctx itself
	for ctx.Err() == nil && run.Cancel(ctx, "the caller cancels it") != nil {
		_ = pause(ctx, 20*time.Millisecond) // as above
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(p.spec.Await, awaitMax), errStuck)
	defer cancel()
	switch _, err := run.Await(ctx); {
	case errors.Is(err, troupe.ErrRunCanceled):
		p.ledger.note("ended", run.ID().String(), "canceled")
	case errors.Is(err, errStuck):
		p.ledger.note("stuck", run.ID().String(), "canceled")
	case err == nil, errors.Is(err, troupe.ErrRunFailed), errors.Is(err, troupe.ErrNoOutput):
		p.ledger.note("wrong", run.ID().String(), fmt.Sprint("canceled, and ended with ", err))
	}
}

func (p *podProcess) await(ctx context.Context, run *troupe.Run[string], key string) {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(p.spec.Await, awaitMax), errStuck)
	defer cancel()
	got, err := run.Await(ctx)
	switch {
	case err == nil && got == key:
		p.ledger.note("ended", run.ID().String(), "")
	case err == nil:
		p.ledger.note("wrong", run.ID().String(), got)
	case errors.Is(err, errStuck):
		p.ledger.note("stuck", run.ID().String(), "")
	case errors.Is(err, troupe.ErrRunFailed), errors.Is(err, troupe.ErrRunCanceled), errors.Is(err, troupe.ErrNoOutput):
		p.ledger.note("wrong", run.ID().String(), err.Error())
	}
}

var errStuck = errors.New("the run has not ended")

// shapes are the handles of the workflows that pods register.
type shapes struct {
	calls   atomic.Int64
	handles map[string]*troupe.Handle[string, string]
}

func (s *shapes) byName(name string) *troupe.Handle[string, string] { return s.handles[name] }
