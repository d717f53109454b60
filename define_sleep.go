package troupe

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/internal/program"
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
	return p.sleep(p.step(workflow.Step{Name: name, Kind: workflow.Sleep, Sleep: duration}), opts)
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
	s := p.step(workflow.Step{Name: name, Kind: workflow.SleepUntil, WakeFrom: workflow.Input})
	from := sourceOf(source)
	if text, remedy := foreign(&p.program, from); text != "" {
		s.Problem("wake_from", text, remedy)
		return p.sleep(s, opts)
	}
	if at == nil {
		s.Problem("wake_from", "the function is nil", "pass a function that returns the instant")
	}
	s.WakeFrom = from.step
	p.wakes[len(p.program.Definition.Steps)] = p.decide("SleepUntil", from, func(value any) (ruling, error) {
		typed, _ := value.(T)
		return instant(at(typed))
	})
	return p.sleep(s, opts)
}

func (p *plan) sleep(s *program.Step, opts []EdgeOption) SleepRef {
	apply(s, opts)
	return SleepRef{at: place{plan: p, step: s.Add()}}
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
