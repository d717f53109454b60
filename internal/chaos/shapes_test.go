package chaos

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/troupe-dev/troupe"
)

// loadShapes are triggered in turn by the load; each gives its input back.
var loadShapes = []string{"diamond", "branch", "flaky", "nap", "intx", "diamond", "diamond"}

// napTime is the sleep of a nap; the leader fires its timer.
const napTime = 200 * time.Millisecond

var errFlaky = errors.New("this first attempt fails on purpose")

// register makes every shape known to the pod's engine.
func (p *podProcess) register() error {
	p.shapes.handles = map[string]*troupe.Handle[string, string]{}
	sound := []*troupe.Workflow[string, string]{p.diamond(), p.branch(), p.flaky(), p.nap(), p.inTx(), p.submitted(), p.endless(), p.gates()}
	for _, w := range slices.Concat(sound, p.family(), p.overLists(), p.faulty()) {
		handle, err := troupe.Register(p.engine, w)
		if err != nil {
			return err
		}
		p.shapes.handles[w.Name()] = handle
	}
	var err error
	if p.shapes.handles[machineName], err = troupe.Register(p.engine, p.machine()); err != nil {
		return err
	}
	return p.spec.Soak.register(p)
}

// effect does a little work between two lines of the ledger.
func (p *podProcess) effect(ctx context.Context, out string) (string, error) {
	task := troupe.Task(ctx)
	p.ledger.note("begun", task.Run.String(), task.Step)
	if err := pause(ctx, workTime(task)); err != nil {
		p.ledger.note("cut", task.Run.String(), task.Step)
		return "", err
	}
	p.ledger.note("done", task.Run.String(), task.Step)
	return out, nil
}

// workTime is 0 to 9 ms, the same for every attempt of a task.
func workTime(task troupe.TaskInfo) time.Duration {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(task.IdempotencyKey)) // it never fails
	return time.Duration(hash.Sum32()%10) * time.Millisecond
}

func (p *podProcess) first(ctx context.Context, in string) (string, error) { return p.effect(ctx, in) }

func (p *podProcess) next(ctx context.Context, _, got string) (string, error) {
	return p.effect(ctx, got)
}

func (p *podProcess) diamond() *troupe.Workflow[string, string] {
	return troupe.Define("diamond", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		a := troupe.Step0(b, "a", p.first)
		left, right := troupe.Step1(b, "b", p.next, a), troupe.Step1(b, "c", p.next, a)
		if p.spec.Version > 0 { // another graph under the same name
			troupe.Step1(b, "audit", p.next, left)
		}
		return troupe.Step2(b, "d", func(ctx context.Context, _, l, r string) (string, error) {
			if l != r {
				return "", fmt.Errorf("%q and %q differ", l, r)
			}
			return p.effect(ctx, l)
		}, left, right)
	})
}

func (p *podProcess) branch() *troupe.Workflow[string, string] {
	return troupe.Define("branch", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		a := troupe.Step0(b, "a", p.first)
		even, odd := troupe.If(a, func(s string) bool { return s[len(s)-1]%2 == 0 })
		left, right := troupe.Step1(b, "even", p.next, a, even), troupe.Step1(b, "odd", p.next, a, odd)
		return troupe.Step2(b, "merge", func(ctx context.Context, _ string, l, r troupe.Opt[string]) (string, error) {
			got, ok := l.Value()
			if other, otherOK := r.Value(); otherOK {
				if ok {
					return "", errors.New("both branches were taken")
				}
				got = other
			}
			return p.effect(ctx, got)
		}, troupe.Maybe(left), troupe.Maybe(right))
	})
}

func (p *podProcess) flaky() *troupe.Workflow[string, string] {
	return troupe.Define("flaky", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "a", func(ctx context.Context, in string) (string, error) {
			if troupe.Task(ctx).Attempt == 1 {
				return "", errFlaky
			}
			return p.effect(ctx, in)
		}, troupe.Retry{Attempts: 3, First: 50 * time.Millisecond})
	})
}

func (p *podProcess) nap() *troupe.Workflow[string, string] {
	return troupe.Define("nap", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		nap := troupe.Sleep(b, "nap", napTime)
		return troupe.Step0(b, "a", p.first, troupe.After(nap))
	})
}

// endless takes an hour, unless it is canceled.
func (p *podProcess) endless() *troupe.Workflow[string, string] {
	return troupe.Define("endless", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		a := troupe.Step0(b, "a", p.first)
		return troupe.Step1(b, "b", p.next, a, troupe.After(troupe.Sleep(b, "nap", time.Hour, troupe.After(a))))
	})
}

// inTx writes to a table of the embedder's in the transaction of its
// completion. The table takes a task only once.
func (p *podProcess) inTx() *troupe.Workflow[string, string] {
	return troupe.Define("intx", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		a := troupe.Step0(b, "a", func(ctx context.Context, in string) (string, error) {
			task := troupe.Task(ctx)
			p.ledger.note("begun", task.Run.String(), task.Step)
			_, err := troupe.Tx(ctx).Exec(ctx, "insert into public.effects (run) values ($1)", task.Run.String())
			if err == nil {
				p.ledger.note("done", task.Run.String(), task.Step)
			}
			return in, err
		}, troupe.InTx(), troupe.Retry{Attempts: 20, First: 50 * time.Millisecond, Factor: 1.5})
		return troupe.Step1(b, "b", p.next, a)
	})
}

// submitted is triggered in a transaction of the caller's.
func (p *podProcess) submitted() *troupe.Workflow[string, string] {
	return troupe.Define("tx", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step1(b, "b", p.next, troupe.Step0(b, "a", p.first))
	})
}

// hold keeps its slot until the test lets the pod's holds go, or its context
// ends.
func (p *podProcess) hold() *troupe.Workflow[string, string] {
	return troupe.Define("hold", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "a", func(ctx context.Context, in string) (string, error) {
			task := troupe.Task(ctx)
			p.ledger.note("begun", task.Run.String(), task.Step)
			for {
				if err := pause(ctx, 10*time.Millisecond); err != nil {
					p.ledger.note("cut", task.Run.String(), err.Error())
					return "", err
				}
				if _, err := os.Stat(releaseFile(p.spec.Dir, p.spec.Name)); err == nil {
					p.ledger.note("done", task.Run.String(), task.Step)
					return in, nil
				}
			}
		})
	})
}

// releaseFile is the file that lets the holds of a pod go.
func releaseFile(dir, pod string) string { return filepath.Join(dir, "release-"+pod) }
