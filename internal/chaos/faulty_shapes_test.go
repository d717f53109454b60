package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe"
)

// faulty returns the workflows that something is wrong with, or that a row
// needs in numbers.
func (p *podProcess) faulty() []*troupe.Workflow[string, string] {
	return []*troupe.Workflow[string, string]{
		p.hold(), p.crash(), p.fan(), p.deaf(), p.tick(), p.downstream(), p.hog(), p.bulky(),
		p.poison("poison", func() { os.Exit(exitCrash) }), p.poison("racy", race), p.poison("glutton", gorge),
	}
}

// fanWidth is how many children the root of a fan has.
const fanWidth = 24

// fan is a root, many children, of which one is skipped by a condition so that
// the store decides in several statements, and a step that joins them.
func (p *podProcess) fan() *troupe.Workflow[string, string] {
	return troupe.Define("fan", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		root := troupe.Step0(b, "root", p.first)
		children := make([]troupe.Dependency, 0, fanWidth)
		for i := range fanWidth - 1 {
			children = append(children, troupe.Step1(b, fmt.Sprintf("child-%d", i), p.next, root))
		}
		skipped := troupe.Step1(b, "skipped", p.next, root, troupe.SkipIf(root, func(string) bool { return true }))
		return troupe.Step1(b, "join", p.next, root, troupe.After(children...), troupe.After(troupe.Maybe(skipped)))
	})
}

// deaf does not listen to its context: it ends when the test lets the pod's
// holds go.
func (p *podProcess) deaf() *troupe.Workflow[string, string] {
	return troupe.Define("deaf", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "a", func(ctx context.Context, in string) (string, error) {
			task := troupe.Task(ctx)
			p.ledger.note("begun", task.Run.String(), task.Step)
			for {
				_ = pause(context.WithoutCancel(ctx), lookGap) // it does not listen
				if _, err := os.Stat(releaseFile(p.spec.Dir, p.spec.Name)); err == nil {
					p.ledger.note("done", task.Run.String(), task.Step)
					return in, nil
				}
			}
		}, troupe.AttemptTimeout(deafTimeout))
	})
}

const deafTimeout = 500 * time.Millisecond

// tick is one step of a millisecond or so.
func (p *podProcess) tick() *troupe.Workflow[string, string] {
	return troupe.Define("tick", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "a", p.first)
	})
}

var errDownstream = errors.New("500 internal server error")

// downstream calls something that fails while the test has it fail.
func (p *podProcess) downstream() *troupe.Workflow[string, string] {
	return troupe.Define("downstream", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "a", func(ctx context.Context, in string) (string, error) {
			if p.armed("downstream") {
				return "", errDownstream
			}
			return p.effect(ctx, in)
		}, troupe.Retry{Attempts: 1000, First: 250 * time.Millisecond, Cap: 2 * time.Second, Jitter: 0.5})
	})
}

// poison ends every process that executes it, once armed: by then the test has
// heard of the run from the pod that triggered it, which may be the first to end.
func (p *podProcess) poison(name string, end func()) *troupe.Workflow[string, string] {
	return troupe.Define(name, func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "a", func(ctx context.Context, _ string) (string, error) {
			for !p.armed(name) {
				if err := pause(ctx, lookGap); err != nil {
					return "", err
				}
			}
			task := troupe.Task(ctx)
			p.ledger.note("begun", task.Run.String(), task.Step)
			end()
			return "", errors.New("the process has survived")
		})
	})
}

// race writes to a map from several goroutines until the runtime ends the
// process: it cannot be recovered from.
func race() {
	shared := map[int]int{}
	for range 8 {
		go func() {
			for i := 0; ; i++ {
				shared[i%8] = i
			}
		}()
	}
	_ = pause(context.Background(), patience) // the runtime notices long before
}

// gorge allocates more than the process may have, as in a container with a
// limit.
func gorge() {
	const more, piece, pieces = 1 << 30, 64 << 20, 64 // bytes: 4 GiB where 1 may be added
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: addressSpace() + more, Max: addressSpace() + more}); err != nil {
		return
	}
	eaten := make([][]byte, 0, pieces)
	for range pieces {
		eaten = append(eaten, make([]byte, piece))
	}
	_ = eaten // the process has ended before
}

// addressSpace is what the process has mapped, in bytes.
func addressSpace() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var pages uint64
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

// crash ends the process that executes it first, after its effect and before
// the engine gets to know.
func (p *podProcess) crash() *troupe.Workflow[string, string] {
	return troupe.Define("crash", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "a", func(ctx context.Context, in string) (string, error) {
			task := troupe.Task(ctx)
			p.ledger.note("begun", task.Run.String(), task.Step)
			p.ledger.note("done", task.Run.String(), task.Step)
			p.ledger.note("effect", task.Run.String(), task.IdempotencyKey)
			marker := filepath.Join(p.spec.Dir, "crashed-"+task.Run.String())
			file, err := os.OpenFile(marker, os.O_CREATE|os.O_EXCL, 0o600)
			if err == nil {
				_ = file.Close() // it is empty
				os.Exit(exitCrash)
			}
			return in, nil
		})
	})
}
