package simtest

import (
	"fmt"
	"testing"
)

// CrashEverywhere simulates body with one crash each time, at every place there
// is. It runs body without faults and counts: first the steps that succeed, then
// all events of the cluster, from which those are left out that only say that
// pods are alive. Then it runs body again and again: for every step, with a
// crash of its pod right after it has succeeded, so that it is executed again;
// for every event and every pod, with a crash of that pod right before it. Last
// come the seeds of a [Run]. Failures are reported as Run does.
//
// Options.Most bounds how often body is run before the seeds; what is left out
// is logged.
func CrashEverywhere(t *testing.T, options Options, body func(s *Sim)) {
	t.Helper()
	b := newBatch(t, options, body)
	if set, ok := named(t); ok {
		b.fatal(b.replayed(set))
		return
	}
	for _, kept := range b.load() {
		b.fatal(b.run(kept))
	}
	b.fatal(b.everywhere())
	b.fatal(b.seeds())
	b.sometimes()
	b.t.Log(b.sum)
}

// FindByCrashing does what CrashEverywhere does before the seeds, and returns
// the first failure instead of failing the test; nil: there was none.
func FindByCrashing(t *testing.T, options Options, body func(s *Sim)) *Failure {
	t.Helper()
	b := newBatch(t, options, body)
	if set, ok := named(t); ok {
		return b.replayed(set)
	}
	return b.everywhere()
}

// everywhere crashes at every place.
func (b *batch) everywhere() *Failure {
	b.t.Helper()
	o := b.play(calm())
	if o.violation != nil {
		return b.failure(o)
	}
	for n := range o.successes {
		set := calm()
		set.Twice = n + 1
		if f := b.run(set); f != nil {
			return f
		}
	}
	all := o.points * b.options.Pods
	tries := min(all, max(b.options.Most-o.successes-1, 0))
	for i := range tries {
		at := i * all / tries
		set := calm()
		set.CrashAt, set.CrashPod = at/b.options.Pods+1, at%b.options.Pods
		if f := b.run(set); f != nil {
			return f
		}
	}
	text := fmt.Sprintf("crashed %d pods at %d points and after %d steps", b.options.Pods, o.points, o.successes)
	if tries < all {
		text += fmt.Sprintf("; %d of %d crashes were left out: set Options.Most to have them", all-tries, all)
	}
	b.t.Log(text)
	return nil
}
