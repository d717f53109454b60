package actors

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// gates registers storetest.Gates, whose steps all wait: none has a function.
func (w *world) gates() {
	w.t.Helper()
	w.register(storetest.Gates(), nil)
}

// signals sends a signal on a pod, and requires that it is stored.
func (w *world) signals(p *Pod, run workflow.RunID, id string) persistence.SignalAnswer {
	w.t.Helper()
	return w.sends(p, run, "go", id)
}

func (w *world) sends(p *Pod, run workflow.RunID, name, id string) persistence.SignalAnswer {
	w.t.Helper()
	answer, refused, err := p.Signal(w.t.Context(), persistence.Signal{Run: run, Tenant: "default", Name: name, ID: id, Payload: []byte(id)})
	require.NoError(w.t, err)
	require.Nil(w.t, refused)
	return answer
}

// outputs returns the outputs of the steps of a run, as one text.
func (w *world) outputs(run workflow.RunID) string {
	w.t.Helper()
	var text []string
	for _, t := range w.tasks(run) {
		text = append(text, t.Name+"="+string(t.Output))
	}
	return strings.Join(text, " ")
}

// A signal is delivered by the pod that stores it, at once: no sweep is due for hours.
func TestASignalIsDeliveredAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		metrics := newKept()
		w.metrics = metrics
		w.gates()
		p := w.start(Config{Sweep: time.Hour, SweepDegraded: time.Hour})
		run := w.trigger(p, "gates")
		began := time.Now()
		for i := range 4 {
			require.Equal(t, persistence.SignalStored, w.signals(p, run, fmt.Sprint(i)).Result)
		}
		require.Equal(t, persistence.SignalRepeated, w.signals(p, run, "0").Result)
		w.completed(run)
		require.Less(t, time.Since(began), time.Minute)
		require.Equal(t, "first=0 second=1 third=2 last=3", w.outputs(run))
		_, refused, err := p.Signal(t.Context(), persistence.Signal{Run: run, Tenant: "default", Name: "go", ID: "5"})
		require.NoError(t, err)
		require.Equal(t, RunEnded, refused.Code)
		require.Equal(t, map[string]float64{"stored": 4, "repeated": 1, "run_ended": 1}, metrics.of("troupe_signals_total"))
		require.Equal(t, map[string]float64{"": 4}, metrics.of("troupe_signals_delivered_total"))
	})
}

// A signal that conditions look at is read by a pod: one that it cannot read fails the step at
// once, and no function of the step is called.
func TestASignalThatNoStepCanRead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.ApprovalStrict(), func(context.Context, Inputs) (Output, error) { return Output{Payload: []byte("x")}, nil },
			func(f *StepFunction) {
				f.Replay = func(context.Context, []byte) (Output, error) {
					return Output{}, Terminal(WithClass("decoding", fmt.Errorf("it is odd")))
				}
			})
		p := w.start(Config{})
		run := w.trigger(p, "strict")
		w.sends(p, run, "approved", "odd")
		row := w.ended(run)
		require.Equal(t, lifecycle.Failed, row.State)
		require.Equal(t, []string{"approve", "decoding", "it is odd"}, []string{row.FailedStep, row.Class, row.Error})
	})
}

// The signals that come during one call are stored by the next.
func TestSignalsAreStoredTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		batches := &counted{Store: w.store, gate: make(chan struct{})}
		w.faults.Store = batches
		w.gates()
		p := w.start(Config{})
		run := w.trigger(p, "gates")
		var senders sync.WaitGroup
		for i := range 4 {
			senders.Go(func() { w.signals(p, run, fmt.Sprint(i)) })
			synctest.Wait() // the first is under way, the others wait for it
		}
		close(batches.gate)
		senders.Wait()
		w.completed(run)
		require.Equal(t, []int{1, 3}, batches.sizes)
	})
}

// counted notes the sizes of batches of signals, of which none is stored before gate is closed.
type counted struct {
	persistence.Store

	gate  chan struct{}
	sizes []int
}

func (c *counted) SendSignals(ctx context.Context, batch []persistence.Signal) (persistence.Signals, error) {
	<-c.gate
	c.sizes = append(c.sizes, len(batch))
	return c.Store.SendSignals(ctx, batch)
}

// Calls of unknown outcome are made again, also by the next incarnation, and no signal is
// doubled or lost.
func TestSignalsOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), bubble(func(t *testing.T, w *world) {
			w.gates()
			p := w.start(Config{})
			run := w.trigger(p, "gates")
			var calls atomic.Int32
			w.faults.failAfter(func(call string) error {
				if call != "send" || calls.Add(1)%2 == 0 {
					return nil
				}
				if restart {
					kill(p, "intake")
					pass(10 * time.Millisecond)
				}
				return persistence.ErrUnavailable
			})
			for i := range 4 {
				require.Equal(t, persistence.SignalRepeated, w.signals(p, run, fmt.Sprint(i)).Result, "the first call had stored it")
			}
			w.completed(run)
			require.Equal(t, "first=0 second=1 third=2 last=3", w.outputs(run))
			require.Len(t, w.store.Snapshot().Inbox, 4)
		}))
	}
}

// What the server lacks resources for alone lets others go first, and is tried until its caller
// leaves.
func TestASignalThatIsTooMuchForTheServer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.faults.Store = narrow{w.store}
		w.gates()
		p := w.start(Config{})
		run := w.trigger(p, "gates")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		large := make(chan error, 1)
		go func() {
			_, _, err := p.Signal(ctx, persistence.Signal{Run: run, Tenant: "default", Name: "go", ID: "large", Payload: make([]byte, 1000)})
			large <- err
		}()
		synctest.Wait()
		for i := range 4 {
			w.signals(p, run, fmt.Sprint(i))
		}
		w.completed(run)
		err := <-large
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, persistence.ErrNoResources, "the caller is told what it failed with")
	})
}

// A signal whose id a transaction holds is sent again until its caller leaves, and holds up no
// other.
func TestASignalThatIsBusyHoldsUpNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		store := &heldID{Store: w.store, id: "held"}
		w.faults.Store = store
		w.gates()
		p := w.start(Config{})
		run := w.trigger(p, "gates")
		held := make(chan error, 3)
		for range cap(held) {
			go func() {
				_, _, err := p.Signal(t.Context(), persistence.Signal{Run: run, Tenant: "default", Name: "go", ID: "held"})
				held <- err
			}()
		}
		synctest.Wait()
		began := time.Now()
		for i := range 3 {
			w.signals(p, run, fmt.Sprint(i))
		}
		require.Less(t, time.Since(began), 10*time.Second)
		require.Empty(t, held)
		store.free.Store(true)
		for range cap(held) {
			require.NoError(t, <-held)
		}
		w.completed(run)
		require.Len(t, w.store.Snapshot().Inbox, 4)
	})
}

// A signal for a run whose definition is not there can be sent again: nothing is wrong with it.
func TestASignalWithoutADefinitionIsNotBad(t *testing.T) {
	t.Parallel()
	refused := SignalRefusal(&persistence.Signal{}, persistence.SignalAnswer{
		Result: persistence.SignalBadRow, Err: fmt.Errorf("its definition: %w", persistence.ErrUnavailable),
	})
	require.Equal(t, Unavailable, refused.Code)
	refused = SignalRefusal(&persistence.Signal{}, persistence.SignalAnswer{Result: persistence.SignalBadRow, Err: persistence.ErrBadRow})
	require.Equal(t, BadInput, refused.Code)
}

// heldID is a store in which a transaction sends a signal of an id, until it is free.
type heldID struct {
	persistence.Store

	id   string
	free atomic.Bool
}

func (h *heldID) SendSignals(ctx context.Context, batch []persistence.Signal) (persistence.Signals, error) {
	if h.free.Load() {
		return h.Store.SendSignals(ctx, batch)
	}
	out := persistence.Signals{Now: time.Now(), Answers: make([]persistence.SignalAnswer, len(batch))}
	for i := range batch {
		if batch[i].ID == h.id {
			time.Sleep(time.Second) // as long as a lock may take, by the bubble's clock
			out.Answers[i] = persistence.SignalAnswer{Result: persistence.SignalBusy, Run: batch[i].Run, Err: persistence.ErrConflict}
			continue
		}
		one, err := h.Store.SendSignals(ctx, batch[i:i+1])
		if err != nil {
			return out, err
		}
		out.Answers[i], out.Wake = one.Answers[0], one.Wake
	}
	return out, nil
}

// narrow is a store on a server that has no room for large signals.
type narrow struct{ persistence.Store }

func (n narrow) SendSignals(ctx context.Context, batch []persistence.Signal) (persistence.Signals, error) {
	for i := range batch {
		if len(batch[i].Payload) >= 1000 {
			return persistence.Signals{}, persistence.ErrNoResources
		}
	}
	return n.Store.SendSignals(ctx, batch)
}

// A pod that stops stores the signals that it has taken in, and refuses others. What has ended
// answers all.
func TestSignalsOfAPodThatStops(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.gates()
		p, other := w.start(Config{}), w.start(Config{})
		run := w.trigger(other, "gates")
		probe := newProbe(w, p.System())
		heal := w.outage()
		answers := make(chan *Refusal, 1)
		go func() {
			_, refused, err := p.Signal(t.Context(), persistence.Signal{Run: run, Tenant: "default", Name: "go", ID: "a"})
			require.NoError(t, err)
			answers <- refused
		}()
		pass(time.Millisecond)
		p.BeginStop()
		pass(time.Millisecond)
		probe.ask(p, &messages.SendSignal{RequestId: "late", Run: run[:], Name: "go"})
		require.Equal(t, messages.SignalRefused_CODE_STOPPING, as[*messages.SignalRefused](t, probe.next()).GetCode())
		heal()
		require.Nil(t, <-answers)
		require.NoError(t, p.Stop(t.Context()))
		require.Len(t, w.store.Snapshot().Inbox, 1)

		w.outage()
		go func() {
			_, refused, err := other.Signal(t.Context(), persistence.Signal{Run: run, Tenant: "default", Name: "go", ID: "b"})
			if err == nil {
				require.Equal(t, Unavailable, refused.Code)
			} else {
				require.ErrorIs(t, err, ErrEnded)
			}
			answers <- nil
		}()
		pass(time.Millisecond)
		other.Kill()
		require.Nil(t, <-answers)
	})
}

// Messages are refused for what is wrong with them, while too many wait, and when they are not
// stored in time.
func TestSignalMessagesAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.gates()
		p := w.start(Config{IntakePending: 2, TriggerTimeout: time.Minute, PayloadLimit: 10})
		run := w.trigger(p, "gates")
		probe := newProbe(w, p.System())
		refused := func(m *messages.SendSignal) (messages.SignalRefused_Code, string) {
			probe.ask(p, m)
			got := as[*messages.SignalRefused](t, probe.next())
			return got.GetCode(), got.GetField()
		}
		for _, c := range []struct {
			m     *messages.SendSignal
			code  messages.SignalRefused_Code
			field string
		}{
			{&messages.SendSignal{Name: "go"}, messages.SignalRefused_CODE_BAD_INPUT, "key"},
			{&messages.SendSignal{Name: "go", Key: "k"}, messages.SignalRefused_CODE_BAD_INPUT, "workflow"},
			{&messages.SendSignal{Name: "go", Key: "k", Workflow: "gates"}, messages.SignalRefused_CODE_RUN_NOT_FOUND, "key"},
			{&messages.SendSignal{Name: "go", Run: []byte("nonsense")}, messages.SignalRefused_CODE_RUN_NOT_FOUND, "run"},
			{&messages.SendSignal{Name: "go", Run: run[:], Tenant: "other"}, messages.SignalRefused_CODE_RUN_NOT_FOUND, "run"},
			{&messages.SendSignal{Run: run[:]}, messages.SignalRefused_CODE_BAD_INPUT, "name"},
			{&messages.SendSignal{Name: "no", Run: run[:]}, messages.SignalRefused_CODE_UNKNOWN_SIGNAL, "name"},
			{&messages.SendSignal{Name: "go", Run: run[:], Payload: make([]byte, 11)}, messages.SignalRefused_CODE_LIMIT, "payload"},
			{&messages.SendSignal{Name: "go", Run: run[:], Id: "a\x00"}, messages.SignalRefused_CODE_BAD_INPUT, "id"},
		} {
			code, field := refused(c.m)
			require.Equal(t, []any{c.code, c.field}, []any{code, field}, c.m)
		}
		heal := w.outage()
		for i := range 2 {
			probe.ask(p, &messages.SendSignal{RequestId: fmt.Sprint(i), Run: run[:], Name: "go"})
		}
		code, _ := refused(&messages.SendSignal{RequestId: "2", Run: run[:], Name: "go"})
		require.Equal(t, messages.SignalRefused_CODE_OVERLOADED, code)
		probe.ask(p, &messages.TriggerRun{RequestId: "3", Workflow: "gates"})
		require.Equal(t, messages.TriggerRefused_CODE_OVERLOADED, as[*messages.TriggerRefused](t, probe.next()).GetCode())
		for range 2 {
			require.Equal(t, messages.SignalRefused_CODE_UNAVAILABLE, as[*messages.SignalRefused](t, probe.next()).GetCode())
		}
		heal()
		probe.ask(p, &messages.SendSignal{RequestId: "4", Run: run[:], Name: "go"})
		require.Equal(t, "4", as[*messages.SignalStored](t, probe.next()).GetRequestId())
	})
}
