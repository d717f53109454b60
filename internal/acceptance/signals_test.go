package acceptance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/messages"
)

// approval is what the signal of the tests says.
type approval struct {
	By string
	OK bool
}

var approved = troupe.NewSignal[approval]("approved")

// contract is draft → approve (a wait) → sign if that says so, or drop, and end.
func contract(waits ...troupe.WaitOption) *troupe.Workflow[string, string] {
	return troupe.Define("contract", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		draft := troupe.Step0(b, "draft", func(_ context.Context, in string) (string, error) { return in + " drafted", nil })
		approve := troupe.WaitSignal(b, "approve", approved, append(waits, troupe.After(draft))...)
		yes, no := troupe.If(approve, func(a approval) bool { return a.OK })
		sign := troupe.Step2(b, "sign", func(_ context.Context, _, drafted string, a approval) (string, error) {
			if strings.HasPrefix(drafted, "broken") {
				return "", errBusy
			}
			return drafted + ", signed by " + a.By, nil
		}, draft, approve, yes)
		drop := troupe.Step0(b, "drop", func(context.Context, string) (string, error) { return "dropped", nil }, troupe.After(approve), no)
		return troupe.Step2(b, "end", func(_ context.Context, _ string, signed, dropped troupe.Opt[string]) (string, error) {
			return signed.Or(dropped.Or("nothing")), nil
		}, troupe.Maybe(sign), troupe.Maybe(drop), troupe.RunIfAllSkipped())
	})
}

func TestASignalIsWhatAStepWaitsFor(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, contract())
		run := begin(t, handle, "deal")
		require.Equal(t, "running draft=completed approve=waiting sign=pending drop=pending end=pending", states(t, run))
		time.Sleep(24 * time.Hour)
		require.Equal(t, troupe.StateWaiting, stepOf(t, run, "approve").State)
		require.NoError(t, approved.Send(t.Context(), run, approval{"ann", true}))
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "deal drafted, signed by ann", out)
		require.Equal(t, "waiting queued started completed", trail(t, run, "approve"))
		require.Contains(t, trail(t, run, ""), "signaled")
	})
}

// It comes before its step, and decides which branch is taken.
func TestAnEarlySignalWaitsForItsStep(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, contract())
		run := begin(t, handle, "deal", troupe.At(time.Now().Add(time.Hour)))
		require.NoError(t, approved.Send(t.Context(), run, approval{"ann", false}))
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "dropped", out)
		require.Equal(t, "queued started completed", trail(t, run, "approve"))
	})
}

func TestOneSignalOfEachID(t *testing.T) {
	virtual(t, func(t *testing.T) {
		word := troupe.NewSignal[string]("word")
		_, handle := start(t, troupe.Define("talk", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			one := troupe.WaitSignal(b, "one", word)
			two := troupe.WaitSignal(b, "two", word, troupe.After(one))
			return troupe.Step2(b, "both", func(_ context.Context, _, a, b string) (string, error) { return a + b, nil }, one, two)
		}))
		run := begin(t, handle, "")
		for _, value := range []string{"a", "b"} {
			require.NoError(t, word.Send(t.Context(), run, value, troupe.SignalID("first")))
		}
		synctest.Wait()
		require.Equal(t, "running one=completed two=waiting both=pending", states(t, run))
		require.NoError(t, word.Send(t.Context(), run, "c"))
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "ac", out)
		require.NoError(t, word.Send(t.Context(), run, "b", troupe.SignalID("first")), "the run has it")
		require.ErrorIs(t, word.Send(t.Context(), run, "b"), troupe.ErrRunEnded)
	})
}

func TestAWaitThatIsTooLongIsSkipped(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, contract(troupe.SkipAfter(72*time.Hour)))
		run := begin(t, handle, "deal")
		began := time.Now()
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "nothing", out)
		require.GreaterOrEqual(t, time.Since(began), 72*time.Hour)
		require.Equal(t, "completed draft=completed approve=skipped sign=skipped drop=skipped end=completed", states(t, run))
	})
}

func TestAWaitThatIsTooLongFails(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, contract(troupe.FailAfter(time.Hour)))
		_, err := begin(t, handle, "deal").Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrWaitTimeout)
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "no context has ended")
		require.ErrorIs(t, troupe.ErrWaitTimeout, context.DeadlineExceeded)
		require.ErrorContains(t, err, `no signal "approved" came within 1h0m0s`)
		require.NotErrorIs(t, &troupe.RunError{Class: "timed_out"}, troupe.ErrWaitTimeout)
	})
}

// An escalation: a step that holds the wait by Settled hears of the deadline.
func TestASettledWaitTellsOfItsDeadline(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, troupe.Define("escalation", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			approve := troupe.WaitSignal(b, "approve", approved, troupe.FailAfter(time.Hour))
			return troupe.Step1(b, "escalate", func(_ context.Context, _ string, got troupe.Outcome[approval]) (string, error) {
				a, err := got.Value()
				if errors.Is(err, troupe.ErrWaitTimeout) {
					return "escalated", nil
				}
				return a.By, err
			}, troupe.Settled(approve))
		}))
		out, err := begin(t, handle, "").Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "escalated", out)
		run := begin(t, handle, "")
		require.NoError(t, approved.Send(t.Context(), run, approval{By: "ann"}))
		out, err = run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "ann", out)
	})
}

func TestB41SignalsThatAreRefused(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, contract(), func(c *troupe.Config) { c.PayloadLimit = 1 << 10 })
		run := begin(t, handle, "deal", troupe.Key("k"))
		refused := func(want error, code troupe.RefusalCode, field, text string, err error) {
			t.Helper()
			var refused *troupe.SendError
			require.ErrorAs(t, err, &refused)
			require.ErrorIs(t, err, want)
			require.Equal(t, []any{code, field}, []any{refused.Code, refused.Field})
			require.ErrorContains(t, err, text)
		}
		ok := approval{OK: true}
		refused(troupe.ErrUnknownSignal, troupe.UnknownSignal, "name", `no step of the run waits for "approval", only for approved`,
			troupe.NewSignal[approval]("approval").Send(t.Context(), run, ok))
		refused(troupe.ErrRunNotFound, troupe.RunNotFound, "run", "no run", approved.Send(t.Context(), handle.Get("other", run.ID()), ok))
		refused(troupe.ErrRunNotFound, troupe.RunNotFound, "key", `has the key "l"`, approved.Send(t.Context(), handle.ByKey("", "l"), ok))
		refused(troupe.ErrRefused, troupe.LimitReached, "id", "300 bytes; at most 255", approved.Send(t.Context(), run, ok, troupe.SignalID(strings.Repeat("i", 300))))
		refused(troupe.ErrRefused, troupe.BadInput, "id", "NUL", approved.Send(t.Context(), run, ok, troupe.SignalID("\x00")))
		refused(troupe.ErrRefused, troupe.LimitReached, "payload", "at most 1024", approved.Send(t.Context(), run, approval{By: strings.Repeat("a", 2000)}))
		refused(troupe.ErrRefused, troupe.BadInput, "value", "not UTF-8", approved.Send(t.Context(), run, approval{By: "\xff"}))
		refused(troupe.ErrRefused, troupe.BadInput, "options[0]", "leave it out", approved.Send(t.Context(), run, ok, nil))
		refused(troupe.ErrRefused, troupe.BadInput, "to", "the recipient is empty", approved.Send(t.Context(), nil, ok))
		refused(troupe.ErrRefused, troupe.BadInput, "to", "the recipient is empty", approved.Send(t.Context(), (*troupe.Run[string])(nil), ok))
		refused(troupe.ErrRefused, troupe.BadInput, "name", "NewSignal", troupe.Signal[approval]{}.Send(t.Context(), run, ok))
		require.ErrorIs(t, approved.SendTx(t.Context(), nil, run, ok), troupe.ErrTxRefused)
		require.NoError(t, run.Cancel(t.Context(), ""))
		synctest.Wait()
		refused(troupe.ErrRunEnded, troupe.RunEnded, "run", run.ID().String(), approved.Send(t.Context(), run, ok))
		require.NoError(t, engine.Stop(t.Context()))
		require.ErrorIs(t, approved.Send(t.Context(), run, ok), troupe.ErrNotStarted)
	})
}

func TestASignalByKeyReachesTheRunThatContinues(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, contract())
		run := begin(t, handle, "broken deal", troupe.Key("d-1"))
		require.NoError(t, approved.Send(t.Context(), handle.ByKey("", "d-1"), approval{"ann", true}, troupe.SignalID("1")))
		_, err := run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		letters, err := engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{})
		require.NoError(t, err)
		again, err := engine.DeadLetters().Requeue(t.Context(), "", letters.Letters[0].ID, troupe.RequeueOptions{Input: "deal"})
		require.NoError(t, err)
		synctest.Wait()
		next := handle.Get("", again.Run)
		require.Equal(t, troupe.StateWaiting, stepOf(t, next, "approve").State, "with another input nothing is taken over")
		require.NoError(t, approved.Send(t.Context(), handle.ByKey("", "d-1"), approval{"bob", true}, troupe.SignalID("1")))
		out, err := next.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "deal drafted, signed by bob", out)
	})
}

func TestATriggerBringsASignal(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, contract())
		first := approved.With(approval{"ann", true}, troupe.SignalID("1"))
		_, err := handle.TriggerWithSignal(t.Context(), "deal", first)
		var refused *troupe.TriggerError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "key", refused.Field)

		run, err := handle.TriggerWithSignal(t.Context(), "deal", first, troupe.Key("d-1"))
		require.NoError(t, err)
		require.False(t, run.Existing())
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "deal drafted, signed by ann", out)

		again, err := handle.TriggerWithSignal(t.Context(), "deal", first, troupe.Key("d-1"))
		require.NoError(t, err, "the run has that signal")
		require.Equal(t, run.ID(), again.ID())
		again, err = handle.TriggerWithSignal(t.Context(), "deal", approved.With(approval{}), troupe.Key("d-1"))
		require.ErrorIs(t, err, troupe.ErrRunEnded)
		require.Equal(t, run.ID(), again.ID())
		unknown, err := handle.TriggerWithSignal(t.Context(), "deal", troupe.NewSignal[int]("no").With(1), troupe.Key("d-2"))
		require.ErrorIs(t, err, troupe.ErrUnknownSignal)
		require.Equal(t, "running", strings.Fields(states(t, unknown))[0])
	})
}

// What no step could read fails the step that waits, at once, and the run that continues finds
// the signal again.
func TestASignalThatCannotBeDecodedFailsItsStep(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, contract())
		run := begin(t, handle, "deal")
		require.NoError(t, troupe.NewSignal[[]int]("approved").Send(t.Context(), run, []int{1}))
		_, err := run.Await(t.Context())
		var failed *troupe.RunError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, []string{"approve", "decoding"}, []string{failed.Step, failed.Class})
		require.ErrorContains(t, err, `decode the signal "approved" into acceptance.approval`)
		require.Equal(t, 1, stepOf(t, run, "approve").Attempt)
	})
}

// The sender does not know which step takes a signal, so that a codec is told its name.
func TestAnEncryptingCodecIsToldSignals(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, contract(), coded(sealed{troupe.JSON{}}))
		run := begin(t, handle, "broken deal", troupe.Tenant("a"), troupe.Key("k"))
		require.NoError(t, approved.Send(t.Context(), handle.ByKey("a", "k"), approval{"ann", true}))
		_, err := run.Await(t.Context())
		require.ErrorContains(t, err, "busy")
		letters, err := engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{Tenant: "a"})
		require.NoError(t, err)
		requeued, err := engine.DeadLetters().Requeue(t.Context(), "a", letters.Letters[0].ID, troupe.RequeueOptions{})
		require.NoError(t, err)
		_, err = handle.Get("a", requeued.Run).Await(t.Context())
		require.ErrorContains(t, err, "busy", "the signal was decoded again, and the step failed again")
		run, err = handle.TriggerWithSignal(t.Context(), "deal", approved.With(approval{"bob", true}), troupe.Key("l"))
		require.NoError(t, err)
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "deal drafted, signed by bob", out)
	})
}

// A run whose output is that of a wait, and OutputOf of it.
func TestTheOutputOfAWaitIsRead(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var ref troupe.StepRef[approval]
		_, handle := start(t, troupe.Define("only", func(b *troupe.Builder[string]) troupe.StepRef[approval] {
			ref = troupe.WaitSignal(b, "approve", approved)
			return ref
		}), coded(sealed{troupe.JSON{}}))
		run := begin(t, handle, "")
		require.NoError(t, approved.Send(t.Context(), run, approval{"ann", true}))
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, approval{"ann", true}, out)
		out, err = troupe.OutputOf(t.Context(), run, ref)
		require.NoError(t, err)
		require.Equal(t, approval{"ann", true}, out)
	})
}

func TestAWaitIsExplained(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, contract(troupe.SkipAfter(72*time.Hour)))
		run := begin(t, handle, "deal")
		time.Sleep(3 * time.Hour)
		reasons, err := engine.Explain(t.Context(), "", run.ID())
		require.NoError(t, err)
		require.Equal(t, "approve", reasons[0].Step)
		require.Equal(t, explain.CauseSignal, reasons[0].Cause)
		require.Equal(t, `waits for the signal "approved" since 3 h, skipped in 2 d 21 h`, reasons[0].Text)
		require.Equal(t, "troupe runs signal "+run.ID().String()+" approved JSON sends it", reasons[0].Remedy)
		step := stepOf(t, run, "approve")
		require.Contains(t, step.Waiting, `waits for the signal "approved"`)
		require.Equal(t, reasons[0].Until.UTC(), step.WakeAt)
	})
}

// An actor sends a signal, and is answered once it is durable.
func TestAnActorSendsASignal(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, contract())
		run := begin(t, handle, "deal", troupe.Key("k"))
		id := run.ID()
		ask := func(m *messages.SendSignal) any {
			answer, err := engine.System().Root.RequestFuture(engine.PID(), m, time.Minute).Result()
			require.NoError(t, err)
			return answer
		}
		refused, is := ask(&messages.SendSignal{RequestId: "1", Run: id[:], Name: "no"}).(*messages.SignalRefused)
		require.True(t, is)
		require.Equal(t, messages.SignalRefused_CODE_UNKNOWN_SIGNAL, refused.GetCode())
		require.Equal(t, id[:], refused.GetRun())
		stored, is := ask(&messages.SendSignal{RequestId: "2", Workflow: "contract", Key: "k", Name: "approved", Id: "x", Payload: []byte(`{"OK":true}`)}).(*messages.SignalStored)
		require.True(t, is)
		require.Equal(t, []any{"2", id[:], false}, []any{stored.GetRequestId(), stored.GetRun(), stored.GetRepeated()})
		_, err := run.Await(t.Context())
		require.NoError(t, err)
		stored, is = ask(&messages.SendSignal{RequestId: "3", Run: id[:], Name: "approved", Id: "x"}).(*messages.SignalStored)
		require.True(t, is)
		require.True(t, stored.GetRepeated())
	})
}
