package acceptance

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// shop is charge → wait → ship, whose last step fails until it is repaired.
type shop struct {
	diary

	mended atomic.Bool
	keys   []string // idempotency keys that ship has seen
}

func (s *shop) workflow(options ...troupe.StepOption) *troupe.Workflow[string, string] {
	return troupe.Define("shop", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		charge := troupe.Step0(b, "charge", func(_ context.Context, in string) (string, error) {
			s.note("charge")
			return in + " charged", nil
		})
		wait := troupe.Sleep(b, "wait", day, troupe.After(charge))
		return troupe.Step1(b, "ship", func(ctx context.Context, _, charged string) (string, error) {
			s.note("ship")
			s.keys = append(s.keys, troupe.Task(ctx).IdempotencyKey)
			if !s.mended.Load() {
				return "", troupe.Class("downstream", errBusy)
			}
			return charged + " shipped", nil
		}, charge, append(options, troupe.After(wait))...)
	})
}

func TestDeadLetterIsRequeued(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := &shop{}
		engine, handle := start(t, s.workflow(steady(2)))
		run := begin(t, handle, "it", troupe.Labels(map[string]string{"color": "red"}))
		_, err := run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		dead := engine.DeadLetters()
		page, err := dead.List(t.Context(), troupe.DeadLetterFilter{Workflow: "shop", Step: "ship"})
		require.NoError(t, err)
		require.Len(t, page.Letters, 1)
		letter := page.Letters[0]
		require.Equal(t, troupe.DeadAttemptsExhausted, letter.Reason)
		require.Equal(t, "downstream", letter.Class)
		require.Equal(t, 2, letter.Attempts)
		detail, err := dead.Show(t.Context(), "", letter.ID)
		require.NoError(t, err)
		require.JSONEq(t, `"it"`, string(detail.Input))
		require.JSONEq(t, `"it charged"`, string(detail.Parents[0].Output))
		require.Equal(t, "queued", detail.Events[0].Kind)

		s.mended.Store(true)
		begun := time.Now()
		requeued, err := dead.Requeue(t.Context(), "", letter.ID, troupe.RequeueOptions{})
		require.NoError(t, err)
		require.Equal(t, 2, requeued.TakenOver)
		out, err := handle.Get("", requeued.Run).Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "it charged shipped", out)
		require.Less(t, time.Since(begun), time.Hour, "the day is not slept again")
		require.Equal(t, []string{"charge", "ship", "ship", "ship"}, s.all())
		require.Equal(t, s.keys[0], s.keys[2], "the effect has the key that it had")
		status, err := engine.Status(t.Context(), "", requeued.Run)
		require.NoError(t, err)
		require.Equal(t, "requeue", status.Origin)
		require.Equal(t, "red", status.Labels["color"])

		_, err = dead.Requeue(t.Context(), "", letter.ID, troupe.RequeueOptions{})
		require.ErrorIs(t, err, troupe.ErrRequeuedBefore)
		require.ErrorContains(t, err, requeued.Run.String())
		count, err := dead.Count(t.Context(), troupe.DeadLetterFilter{NotRequeued: true})
		require.NoError(t, err)
		require.Zero(t, count)
	})
}

func TestDeadLettersAreRequeuedAllAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var mended atomic.Bool
		engine, handle := start(t, single(func(context.Context, string) (int, error) {
			if mended.Load() {
				return 1, nil
			}
			return 0, troupe.Terminal(errBusy)
		}))
		for range 5 {
			begin(t, handle, "")
		}
		dead := engine.DeadLetters()
		report, err := dead.RequeueAll(t.Context(), troupe.DeadLetterFilter{Limit: 2}, troupe.RequeueOptions{})
		require.NoError(t, err)
		require.Len(t, report.Runs, 2)
		synctest.Wait()
		count, err := dead.Count(t.Context(), troupe.DeadLetterFilter{NotRequeued: true})
		require.NoError(t, err)
		require.Equal(t, 5, count, "three old ones, two that failed again")
		mended.Store(true)
		report, err = dead.RequeueAll(t.Context(), troupe.DeadLetterFilter{Workflow: "single"}, troupe.RequeueOptions{})
		require.NoError(t, err)
		require.Len(t, report.Runs, 5)
		require.Equal(t, 5, report.Letters)
		synctest.Wait()
		for _, run := range report.Runs {
			_, err := handle.Get("", run).Await(t.Context())
			require.NoError(t, err)
		}
		purged, err := dead.Purge(t.Context(), troupe.DeadLetterFilter{RequeuedOnly: true, Limit: 3})
		require.NoError(t, err)
		require.Equal(t, 3, purged)
		purged, err = dead.Purge(t.Context(), troupe.DeadLetterFilter{})
		require.NoError(t, err)
		require.Equal(t, 4, purged)
	})
}

func TestDeadLetterIsRequeuedWithAnotherInput(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, single(func(_ context.Context, in string) (string, error) {
			if in == "wrong" {
				return "", troupe.Terminal(errBusy)
			}
			return in, nil
		}))
		begin(t, handle, "wrong")
		dead := engine.DeadLetters()
		page, err := dead.List(t.Context(), troupe.DeadLetterFilter{})
		require.NoError(t, err)
		_, err = dead.Requeue(t.Context(), "", page.Letters[0].ID, troupe.RequeueOptions{Input: 7})
		var refused *troupe.TriggerError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "input", refused.Field)
		_, err = dead.Requeue(t.Context(), "", page.Letters[0].ID, troupe.RequeueOptions{Queue: "nowhere"})
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "queue", refused.Field)
		for i, options := range []troupe.RequeueOptions{
			{Payload: []byte("7")},
			{Payload: []byte{}},
			{Input: "right", Payload: []byte(`"right"`)},
			{Input: strings.Repeat("x", 1<<20)},
			{Payload: make([]byte, 1<<20+1)},
		} {
			_, err = dead.Requeue(t.Context(), "", page.Letters[0].ID, options)
			require.ErrorAs(t, err, &refused, i)
			require.Equal(t, "input", refused.Field)
		}
		require.Equal(t, troupe.LimitReached, refused.Code)
		_, err = dead.RequeueAll(t.Context(), troupe.DeadLetterFilter{}, troupe.RequeueOptions{Payload: []byte(`"right"`)})
		require.ErrorContains(t, err, "for one of them")
		for _, options := range []troupe.RequeueOptions{{Input: "right"}, {Payload: []byte(`"right"`), Again: true}} {
			requeued, err := dead.Requeue(t.Context(), "", page.Letters[0].ID, options)
			require.NoError(t, err)
			out, err := handle.Get("", requeued.Run).Await(t.Context())
			require.NoError(t, err)
			require.Equal(t, "right", out)
		}
	})
}

// A condition on an output that is taken over is evaluated again.
func TestARequeuedRunTakesTheSameBranch(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		var mended atomic.Bool
		engine, handle := start(t, troupe.Define("branch", func(b *troupe.Builder[int]) troupe.StepRef[string] {
			decide := troupe.Step0(b, "decide", func(_ context.Context, in int) (int, error) { d.note("decide"); return in, nil })
			positive := func(n int) bool { return n > 0 }
			troupe.Step1(b, "left", func(context.Context, int, int) (string, error) { d.note("left"); return "l", nil },
				decide, troupe.SkipIf(decide, positive))
			return troupe.Step1(b, "right", func(context.Context, int, int) (string, error) {
				d.note("right")
				if !mended.Load() {
					return "", troupe.Terminal(errBusy)
				}
				return "r", nil
			}, decide)
		}))
		begin(t, handle, 1)
		mended.Store(true)
		report, err := engine.DeadLetters().RequeueAll(t.Context(), troupe.DeadLetterFilter{}, troupe.RequeueOptions{})
		require.NoError(t, err)
		run := handle.Get("", report.Runs[0])
		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "r", out)
		require.Equal(t, "completed decide=completed left=skipped right=completed", states(t, run))
		require.Equal(t, []string{"decide", "right", "right"}, d.all())
	})
}

func TestReasonsThatDoNotCountLeaveNoLetter(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, single(func(_ context.Context, in string) (int, error) {
			if in == "terminal" {
				return 0, troupe.Terminal(errBusy)
			}
			return 0, errBusy
		}), func(c *troupe.Config) {
			c.DeadReasons = []troupe.DeadReason{troupe.DeadNonRetryable, troupe.DeadPoison}
		})
		begin(t, handle, "")
		begin(t, handle, "terminal")
		page, err := engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{})
		require.NoError(t, err)
		require.Len(t, page.Letters, 1)
		require.Equal(t, troupe.DeadNonRetryable, page.Letters[0].Reason)
	})
}

func TestDeadLettersAreKeptForAsLongAsSaid(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, single(func(context.Context, string) (int, error) { return 0, errBusy }),
			func(c *troupe.Config) { c.DeadLetterRetention = 2 * time.Hour })
		begin(t, handle, "")
		count := func() int {
			n, err := engine.DeadLetters().Count(t.Context(), troupe.DeadLetterFilter{})
			require.NoError(t, err)
			return n
		}
		time.Sleep(90 * time.Minute)
		require.Equal(t, 1, count())
		time.Sleep(3 * time.Hour)
		require.Zero(t, count())
	})
}

func TestUndecodableValuesAreDeadLetters(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, single(func(context.Context, string) (any, error) { return make(chan int), nil }, steady(3)))
		begin(t, handle, "")
		page, err := engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{})
		require.NoError(t, err)
		require.Len(t, page.Letters, 1)
		require.Equal(t, troupe.DeadUndecodable, page.Letters[0].Reason)
		require.Equal(t, 1, page.Letters[0].Attempts)
	})
}

func TestBadRequestsAboutDeadLetters(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, _ := start(t, single(number))
		dead := engine.DeadLetters()
		for _, filter := range []troupe.DeadLetterFilter{
			{After: "no id"},
			{OlderThan: -time.Second},
			{YoungerThan: 1 << 62},
			{Limit: -1},
			{NotRequeued: true, RequeuedOnly: true},
			{Queue: "nul\x00"},
			{Handler: "0123456"},
			{Handler: "01234567AB"},
			{Handler: strings.Repeat("0", 65)},
		} {
			_, err := dead.List(t.Context(), filter)
			require.ErrorContains(t, err, "filter dead letters: ", "%+v", filter)
			_, err = dead.RequeueAll(t.Context(), filter, troupe.RequeueOptions{})
			require.ErrorContains(t, err, "filter dead letters: ", "%+v", filter)
		}
		_, err := dead.Purge(t.Context(), troupe.DeadLetterFilter{Newest: true})
		require.ErrorContains(t, err, "Newest is for List and RequeueAll")
		for _, id := range []string{"", "x", strings.Repeat("z", 300), "0190c2f3-7a1b-7c3d-8e4f-0123456789ab/-1", "0190c2f3-7a1b-7c3d-8e4f-0123456789ab/01"} {
			_, err := dead.Show(t.Context(), "", id)
			require.ErrorContains(t, err, "is not the id of a dead letter")
			require.Less(t, len(err.Error()), 300)
		}
		unknown := "0190c2f3-7a1b-7c3d-8e4f-0123456789ab/1"
		_, err = dead.Show(t.Context(), "", unknown)
		require.ErrorIs(t, err, troupe.ErrDeadLetterNotFound)
		_, err = dead.Requeue(t.Context(), "", unknown, troupe.RequeueOptions{})
		require.ErrorIs(t, err, troupe.ErrDeadLetterNotFound)
		_, err = troupe.OpenDeadLetters(t.Context(), nil, "troupe")
		require.Error(t, err)
		stopped, err := troupe.NewInMemory(troupe.Config{})
		require.NoError(t, err)
		_, err = stopped.DeadLetters().Count(t.Context(), troupe.DeadLetterFilter{})
		require.True(t, errors.Is(err, troupe.ErrNotStarted))
	})
}
