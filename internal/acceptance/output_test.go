package acceptance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cluster/local"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/memory"
	"github.com/troupe-dev/troupe/workflow"
)

// payloadReads notes which outputs are read.
type payloadReads struct {
	persistence.Store

	mu    sync.Mutex
	whole int     // reads that bring the outputs of a run, or of its steps
	steps []int32 // single payloads
}

func (r *payloadReads) note(whole bool, steps ...int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, steps...)
	if whole {
		r.whole++
	}
}

func (r *payloadReads) Run(ctx context.Context, tenant string, run troupe.RunID, without ...persistence.Without) (persistence.RunRow, error) {
	r.note(!slices.Contains(without, persistence.WithoutOutputs))
	return r.Store.Run(ctx, tenant, run, without...)
}

func (r *payloadReads) Tasks(ctx context.Context, tenant string, run troupe.RunID, without ...persistence.Without) ([]persistence.TaskRow, error) {
	r.note(!slices.Contains(without, persistence.WithoutOutputs))
	return r.Store.Tasks(ctx, tenant, run, without...)
}

func (r *payloadReads) Payloads(ctx context.Context, run workflow.RunID, steps []int32) ([][]byte, error) {
	r.note(false, steps...)
	return r.Store.Payloads(ctx, run, steps)
}

// outputs is a run with steps that ended in every way, the last of which waits, and the
// refs of its steps.
type outputs struct {
	engine                                            *troupe.Engine
	reads                                             *payloadReads
	handle                                            *troupe.Handle[string, int]
	run                                               *troupe.Run[int]
	length, skipped, failing, last, foreign, elsewhen troupe.StepRef[int]
	release                                           func() // lets the last step end
}

func startOutputs(t *testing.T) *outputs {
	t.Helper()
	store := memory.New(memory.Options{Now: time.Now})
	held := make(chan struct{})
	o := &outputs{reads: &payloadReads{Store: store}, release: sync.OnceFunc(func() { close(held) })}
	engine, err := onStore(calm(), o.reads, local.NewBus(store))
	require.NoError(t, err)
	o.engine = engine
	nothing := func(context.Context, string) (int, error) { return 0, nil }
	flow := troupe.Define("outputs", func(b *troupe.Builder[string]) troupe.StepRef[int] {
		first := troupe.Step0(b, "text", func(_ context.Context, in string) (string, error) { return in + in, nil })
		o.length = troupe.Step1(b, "length", func(_ context.Context, _, of string) (int, error) { return len(of), nil }, first)
		o.skipped = troupe.Step0(b, "never", nothing, troupe.After(first), troupe.SkipIf(first, func(string) bool { return true }))
		o.failing = troupe.Step1(b, "fail", func(context.Context, string, string) (int, error) { return 0, errors.New("no stock") }, first)
		o.last = troupe.Step2(b, "last", func(_ context.Context, _ string, n int, _ troupe.Outcome[int]) (int, error) {
			<-held
			return n + 1, nil
		}, o.length, troupe.Settled(o.failing))
		return o.last
	})
	troupe.Define("others", func(b *troupe.Builder[string]) troupe.StepRef[int] {
		o.foreign = troupe.Step0(b, "length", nothing)
		return o.foreign
	})
	troupe.Define("outputs", func(b *troupe.Builder[string]) troupe.StepRef[int] { // a later version
		o.elsewhen = troupe.Step0(b, "extra", nothing)
		return o.elsewhen
	})
	o.handle = join(t, engine, flow)
	o.run, err = o.handle.RunNoWait(t.Context(), "four")
	require.NoError(t, err)
	synctest.Wait()
	return o
}

// TestOutputOf reads the output of one step, and no other, while the run lasts and once
// it has ended. A step without an output gives the reason.
func TestOutputOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := startOutputs(t)
		defer o.release()
		value, err := troupe.OutputOf(t.Context(), o.run, o.length)
		require.NoError(t, err)
		require.Equal(t, 8, value)
		require.Equal(t, []int32{1}, o.reads.steps)
		require.Zero(t, o.reads.whole)
		for text, ref := range map[string]troupe.StepRef[int]{
			`step "last": step has not ended: it is running`:             o.last,
			`step "never": step was skipped`:                             o.skipped,
			`step "fail" failed: no stock`:                               o.failing,
			`workflow "others", the run is of "outputs": pass a ref of`:  o.foreign,
			`ref is step "extra", which the run does not have: it began`: o.elsewhen,
			"ref is empty: pass what":                                    {},
		} {
			_, err := troupe.OutputOf(t.Context(), o.run, ref)
			require.ErrorContains(t, err, text)
		}
		_, err = troupe.OutputOf(t.Context(), o.run, o.last)
		require.ErrorIs(t, err, troupe.ErrStepNotEnded)
		_, err = troupe.OutputOf(t.Context(), o.run, o.failing)
		require.ErrorAs(t, err, new(*troupe.StepError))
		_, err = troupe.OutputOf(t.Context(), o.handle.Get("another", o.run.ID()), o.length)
		require.ErrorIs(t, err, troupe.ErrRunNotFound)

		o.release()
		total, err := o.run.Await(t.Context())
		require.NoError(t, err)
		value, err = troupe.OutputOf(t.Context(), o.run, o.last)
		require.NoError(t, err)
		require.Equal(t, total, value)
	})
}

// A status without outputs is the same, and reads none from the store.
func TestStatusWithoutOutputs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := startOutputs(t)
		defer o.release()
		bare, err := o.run.Status(t.Context(), troupe.WithoutOutputs())
		require.NoError(t, err)
		require.Empty(t, o.reads.steps)
		require.Zero(t, o.reads.whole)
		full, err := o.run.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, "8", string(full.Steps[1].Output))
		for i := range full.Steps {
			full.Steps[i].Output = nil
		}
		require.Equal(t, full, bare)
		_, err = o.run.Status(t.Context(), nil)
		require.ErrorContains(t, err, "options[0] is nil")
	})
}
