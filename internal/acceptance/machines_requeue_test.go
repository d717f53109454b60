package acceptance

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/statemachine"
)

var shipmentPaid = troupe.NewSignal[int]("paid")

// shipmentState is the state of a shipment.
type shipmentState struct {
	Charged []string
	Label   string
	Paid    int
	Fired   time.Time // when its timer did, by its instant
	Due     time.Time
}

// shipment is a machine that charges, prints a label, hears of a payment and waits for a window. Until
// it is mended its label takes until it is canceled, and it fails when it hears of the payment.
type shipment struct {
	mu     sync.Mutex
	calls  map[string]int      // by the id of the activity
	keys   map[string][]string // the same
	mended atomic.Bool
}

func newShipment() *shipment { return &shipment{calls: map[string]int{}, keys: map[string][]string{}} }

func (p *shipment) called(ctx context.Context) string {
	task := troupe.Task(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[task.Step]++
	p.keys[task.Step] = append(p.keys[task.Step], task.IdempotencyKey)
	return task.Step
}

func (p *shipment) machine(wait time.Duration) *statemachine.Machine[int, shipmentState, shipmentState] {
	type activation = statemachine.Activation[shipmentState, shipmentState]
	done := func(a *activation) {
		if s := a.State; len(s.Charged) == 2 && s.Label != "" && s.Paid > 0 && !s.Fired.IsZero() {
			a.Complete(s)
		}
	}
	return statemachine.Define("shipment", func(m *statemachine.Builder[int, shipmentState, shipmentState]) {
		charge := statemachine.Activity(m, "charge", func(ctx context.Context, _ int) (string, error) { return p.called(ctx), nil })
		label := statemachine.Activity(m, "label", func(ctx context.Context, _ int) (string, error) {
			id := p.called(ctx)
			if !p.mended.Load() {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return id, nil
		})
		window := m.Timer("window")
		m.OnStart(func(a *activation, in int) {
			charge.Start(a, in)
			label.Start(a, in)
			charge.Start(a, in)
			a.State.Due = a.Now().Add(wait)
			window.StartAt(a, a.State.Due)
		})
		statemachine.OnCompleted(m, charge, func(a *activation, id string) {
			a.State.Charged = append(a.State.Charged, id)
			done(a)
		})
		statemachine.OnCompleted(m, label, func(a *activation, id string) {
			a.State.Label = id
			done(a)
		})
		m.OnTimer(window, func(a *activation) {
			a.State.Fired = a.Now()
			done(a)
		})
		statemachine.OnSignal(m, shipmentPaid, func(a *activation, value int) {
			if !p.mended.Load() {
				a.Fail(troupe.Class("broken", errBusy))
				return
			}
			a.State.Paid = value
			done(a)
		})
	})
}

// goOn fails a shipment once both charges are in its state, mends it, requeues it and returns what it
// completes with.
func (p *shipment) goOn(t *testing.T, engine *troupe.Engine, machine *statemachine.Machine[int, shipmentState, shipmentState], handle *troupe.Handle[int, shipmentState], charged func(run *troupe.Run[shipmentState])) shipmentState {
	t.Helper()
	run, err := handle.RunNoWait(t.Context(), 7)
	require.NoError(t, err)
	charged(run)
	require.NoError(t, shipmentPaid.Send(t.Context(), run, 30))
	_, err = run.Await(t.Context())
	require.ErrorIs(t, err, troupe.ErrRunFailed)
	before, err := machine.State(t.Context(), run)
	require.NoError(t, err)
	require.Equal(t, []any{2, 0, ""}, []any{len(before.Charged), before.Paid, before.Label})
	letters := lettersOf(t, engine)
	require.Len(t, letters, 1)
	require.Equal(t, []any{"machine", false, "broken"}, []any{letters[0].Step, letters[0].Handled, letters[0].Class})

	p.mended.Store(true)
	requeued, err := engine.DeadLetters().Requeue(t.Context(), "", letters[0].ID, troupe.RequeueOptions{})
	require.NoError(t, err)
	out, err := handle.Get("", requeued.Run).Await(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"charge#1", "charge#3"}, out.Charged)
	require.Equal(t, []any{"label#2", 30}, []any{out.Label, out.Paid})
	require.True(t, out.Due.Equal(before.Due))
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Equal(t, map[string]int{"charge#1": 1, "charge#3": 1, "label#2": 2}, p.calls)
	require.Equal(t, run.ID().String()+"/label#2", p.keys["label#2"][1], "the effect has the key that it had")
	require.Equal(t, p.keys["label#2"][0], p.keys["label#2"][1])
	return out
}

func lettersOf(t *testing.T, engine *troupe.Engine) []troupe.DeadLetter {
	t.Helper()
	page, err := engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{})
	require.NoError(t, err)
	return page.Letters
}

func TestAMachineGoesOnFromItsState(t *testing.T) {
	virtual(t, func(t *testing.T) {
		p := newShipment()
		machine := p.machine(time.Hour)
		engine, handle := start(t, machine)
		out := p.goOn(t, engine, machine, handle, func(*troupe.Run[shipmentState]) { time.Sleep(10 * time.Minute) })
		require.WithinDuration(t, out.Due, out.Fired, time.Second, "the timer has the instant that it had")
	})
}

// A machine that has handled the failure of an activity does not hear of another attempt.
func TestAHandledFailureIsNotRequeued(t *testing.T) {
	virtual(t, func(t *testing.T) {
		type activation = statemachine.Activation[int, string]
		ended := false
		machine := statemachine.Define("handles", func(m *statemachine.Builder[int, int, string]) {
			charge := statemachine.Activity(m, "charge", func(context.Context, int) (int, error) { return 0, troupe.Terminal(errBusy) })
			window := m.Timer("window")
			m.OnStart(func(a *activation, in int) { charge.Start(a, in) })
			m.OnFailed(charge, func(a *activation, _ *troupe.StepError) { window.Start(a, time.Hour) })
			m.OnTimer(window, func(a *activation) {
				if !ended {
					a.Fail(errBusy)
					return
				}
				a.Complete("done")
			})
		})
		engine, handle := start(t, machine)
		run, err := handle.RunNoWait(t.Context(), 1)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		letters, dead := lettersOf(t, engine), engine.DeadLetters()
		require.Len(t, letters, 1)
		require.Equal(t, []any{"charge#1", true}, []any{letters[0].Step, letters[0].Handled})
		_, err = dead.Requeue(t.Context(), "", letters[0].ID, troupe.RequeueOptions{})
		require.ErrorIs(t, err, troupe.ErrRunGoesOn)
		_, err = run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		_, err = dead.Requeue(t.Context(), "", letters[0].ID, troupe.RequeueOptions{})
		require.ErrorIs(t, err, troupe.ErrFailureHandled)
		require.ErrorContains(t, err, "FromStart")
		report, err := dead.RequeueAll(t.Context(), troupe.DeadLetterFilter{Step: "charge#1"}, troupe.RequeueOptions{})
		require.NoError(t, err)
		require.Equal(t, troupe.RequeueReport{Handled: 1}, report)
		ended = true
		report, err = dead.RequeueAll(t.Context(), troupe.DeadLetterFilter{Newest: true}, troupe.RequeueOptions{})
		require.NoError(t, err)
		require.Equal(t, []int{1, 2, 1}, []int{len(report.Runs), report.Letters, report.Handled})
		out, err := handle.Get("", report.Runs[0]).Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "done", out)
	})
}

// Options of a requeue hold for each step of the new run in place of those that it declares.
func TestARequeueHasOptionsOfItsOwn(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var attempts, limit atomic.Int64
		limit.Store(1000)
		engine, handle := start(t, single(func(ctx context.Context, _ string) (int, error) {
			n := attempts.Add(1)
			if n < limit.Load() {
				return troupe.Task(ctx).MaxAttempts, troupe.Class("busy", errBusy)
			}
			return troupe.Task(ctx).MaxAttempts, nil
		}, troupe.Retry{Attempts: 2, First: time.Second, If: func(error) bool { return false }}))
		begin(t, handle, "it")
		require.EqualValues(t, 1, attempts.Load())
		dead, letter := engine.DeadLetters(), lettersOf(t, engine)[0]
		for field, options := range map[string]troupe.RequeueOptions{
			"retry.attempts":  {Retry: troupe.Retry{First: time.Second}},
			"retry.if":        {Retry: troupe.Retry{Attempts: 3, If: func(error) bool { return true }}},
			"retry.first":     {Retry: troupe.Retry{Attempts: 3, First: -1}},
			"retry.never":     {Retry: troupe.Retry{Attempts: 3, Never: make([]string, 21)}},
			"attempt_timeout": {AttemptTimeout: -1},
		} {
			_, err := dead.Requeue(t.Context(), "", letter.ID, options)
			var refused *troupe.TriggerError
			require.ErrorAs(t, err, &refused, field)
			require.Equal(t, field, refused.Field)
			require.NotEmpty(t, refused.Remedy)
		}
		limit.Store(4)
		begun := time.Now()
		requeued, err := dead.Requeue(t.Context(), "", letter.ID, troupe.RequeueOptions{
			Retry: troupe.Retry{Attempts: 3, First: time.Minute, Factor: 1, Jitter: -1}, AttemptTimeout: time.Hour,
		})
		require.NoError(t, err)
		out, err := handle.Get("", requeued.Run).Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, out)
		require.EqualValues(t, 4, attempts.Load())
		require.Equal(t, 2*time.Minute, time.Since(begun).Round(time.Second))
	})
}

// The same for the longest attempt, which the next run that continues does not have.
func TestARequeueHasALongestAttemptOfItsOwn(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, single(func(ctx context.Context, _ string) (int, error) {
			begun := time.Now()
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(time.Hour):
				return int(time.Since(begun)), nil
			}
		}, troupe.AttemptTimeout(time.Minute)))
		run := begin(t, handle, "it")
		_, err := run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		begun := time.Now()
		requeued, err := engine.DeadLetters().RequeueRun(t.Context(), "", run.ID(), troupe.RequeueOptions{AttemptTimeout: time.Second})
		require.NoError(t, err)
		_, err = handle.Get("", requeued.Run).Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.Less(t, time.Since(begun), time.Minute)
		requeued, err = engine.DeadLetters().RequeueRun(t.Context(), "", requeued.Run, troupe.RequeueOptions{})
		require.NoError(t, err)
		_, err = handle.Get("", requeued.Run).Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.GreaterOrEqual(t, time.Since(begun), time.Minute)
		requeued, err = engine.DeadLetters().RequeueRun(t.Context(), "", requeued.Run, troupe.RequeueOptions{AttemptTimeout: 2 * time.Hour})
		require.NoError(t, err)
		_, err = handle.Get("", requeued.Run).Await(t.Context())
		require.NoError(t, err)
	})
}
