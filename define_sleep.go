package troupe

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/workflow"
)

// Sleep declares a durable wait: a row in the database, not a process, so it
// survives restarts and costs nothing while it lasts. It begins when what it
// comes [After] has ended, at the start of the run if there is nothing, and
// ends by the database's clock. A sleep on a branch that is not taken never
// begins.
func Sleep[I any](b *Builder[I], name string, duration time.Duration, opts ...EdgeOption) SleepRef {
	p := b.open()
	if p == nil {
		return SleepRef{}
	}
	d := &draft{plan: p, step: workflow.Step{Name: name, Kind: workflow.Sleep, Sleep: duration}}
	return d.sleep(opts)
}

// SleepUntil declares a durable wait until an instant, which at takes from the
// output of a step or from the run's input. An instant in the past ends it at
// once. The zero time, or a year after 9999 in UTC, fails the sleep; so does a panic.
func SleepUntil[I, T any](
	b *Builder[I], name string, source Source[T], at func(T) time.Time, opts ...EdgeOption,
) SleepRef {
	p := b.open()
	if p == nil {
		return SleepRef{}
	}
	d := &draft{plan: p, step: workflow.Step{Name: name, Kind: workflow.SleepUntil, WakeFrom: workflow.Input}}
	from := sourceOf(source)
	if text, remedy := p.foreign(from); text != "" {
		d.problem("wake_from", text, remedy)
		return d.sleep(opts)
	}
	if at == nil {
		d.problem("wake_from", "the function is nil", "pass a function that returns the instant")
	}
	d.step.WakeFrom = from.step
	p.wakes[len(p.definition.Steps)] = p.decide("SleepUntil", from, func(value any) (ruling, error) {
		typed, _ := value.(T)
		return instant(at(typed))
	})
	return d.sleep(opts)
}

func (d *draft) sleep(opts []EdgeOption) SleepRef {
	for i, opt := range opts {
		if d.present(opt != nil, i) {
			opt.applyStep(d)
		}
	}
	return SleepRef{at: d.add(stepFunction{})}
}

// instant checks one that the embedder computed: whatever the database cannot
// store must not reach it.
func instant(at time.Time) (ruling, error) {
	wakeAt := at.Round(0).UTC()
	if at.IsZero() || wakeAt.Year() < 1 || wakeAt.Year() > 9999 {
		return ruling{}, fmt.Errorf("instant %v is not in the years 1 to 9999", wakeAt)
	}
	return ruling{wakeAt: wakeAt}, nil
}
