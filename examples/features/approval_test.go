package features_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
)

// approval is the value of a signal: who has approved.
type approval struct{ By string }

var approved = troupe.NewSignal[approval]("approved")

// invoices pays an invoice when a clerk has approved it. After three days a manager is told, who
// has a week. ask tells people; it has to honour the key of its step.
func invoices(ask func(ctx context.Context, whom string) error) *troupe.Workflow[string, string] {
	tries := troupe.Retry{Attempts: 50}
	return troupe.Define("invoices", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		asked := troupe.Step0(b, "ask", func(ctx context.Context, _ string) (bool, error) { return true, ask(ctx, "clerk") }, tries)
		clerk := troupe.WaitSignal(b, "clerk", approved, troupe.SkipAfter(3*24*time.Hour), troupe.After(asked))
		escalated := troupe.Step1(b, "escalate", func(ctx context.Context, _ string, got troupe.Opt[approval]) (bool, error) {
			if _, ok := got.Value(); ok {
				return false, nil
			}
			return true, ask(ctx, "manager")
		}, troupe.Maybe(clerk), troupe.RunIfAllSkipped(), tries)
		late, _ := troupe.If(escalated, func(yes bool) bool { return yes })
		manager := troupe.WaitSignal(b, "manager", approved, troupe.FailAfter(7*24*time.Hour), troupe.After(escalated), late)
		return troupe.Step2(b, "pay", func(_ context.Context, id string, clerk, manager troupe.Opt[approval]) (string, error) {
			return id + " paid, approved by " + clerk.Or(manager.Or(approval{})).By, nil
		}, troupe.Maybe(clerk), troupe.Maybe(manager), troupe.After(escalated), tries)
	})
}

// A wait is a row in the database: no slot and no process, for as long as people take.
func TestApproval(t *testing.T) {
	asked := &ledger[string]{}
	ask := func(_ context.Context, whom string) error { asked.add(whom); return nil }
	inMemory(t, troupe.Config{}, invoices(ask), func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[string, string]) {
		run, err := handle.RunNoWait(t.Context(), "i-1")
		require.NoError(t, err)
		time.Sleep(24 * time.Hour)
		require.Equal(t, troupe.StateWaiting, statesOf(t, engine, run.ID())["clerk"])
		require.NoError(t, approved.Send(t.Context(), run, approval{"the clerk"}))
		text, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "i-1 paid, approved by the clerk", text)
		require.Equal(t, []string{"clerk"}, asked.all())

		run, err = handle.RunNoWait(t.Context(), "i-2", troupe.Key("i-2"))
		require.NoError(t, err)
		time.Sleep(4 * 24 * time.Hour)
		require.NoError(t, approved.Send(t.Context(), handle.ByKey("", "i-2"), approval{"the manager"}))
		text, err = run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "i-2 paid, approved by the manager", text)

		_, err = handle.Run(t.Context(), "i-3")
		require.ErrorIs(t, err, troupe.ErrWaitTimeout)
	})
}

// The same on clusters that crash: whenever a signal comes, it decides.
func TestApprovalUnderFaults(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 20}, func(s *simtest.Sim) {
		w := simtest.Register(s, invoices(func(context.Context, string) error { return nil }))
		run := w.Start("i-1", troupe.Key("i-1"))
		days := s.Rand().IntN(10)
		s.Advance(time.Duration(days) * 24 * time.Hour)
		if err := simtest.TrySend(w.ByKey("", "i-1"), approved, approval{"ann"}); err != nil {
			require.ErrorIs(s, err, troupe.ErrRunEnded)
			require.GreaterOrEqual(s, days, 9, "a week and three days are not over")
		}
		text, err := run.Await()
		if err != nil {
			require.ErrorIs(s, err, troupe.ErrWaitTimeout)
			return
		}
		require.Equal(s, "i-1 paid, approved by ann", text)
		s.Sometimes("the clerk was in time", run.States()["manager"] == troupe.StateSkipped)
		s.Sometimes("the manager was asked", run.States()["manager"] == troupe.StateCompleted)
	})
}

// payment is what a webhook brings.
type payment struct{ Cents int }

var paid = troupe.NewSignal[payment]("paid")

// parcels sends a parcel that is packed and paid for, whichever comes first.
func parcels() *troupe.Workflow[string, string] {
	tries := troupe.Retry{Attempts: 50}
	return troupe.Define("paid-parcels", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		packed := troupe.Step0(b, "pack", func(_ context.Context, id string) (string, error) { return id + " packed", nil }, tries)
		money := troupe.WaitSignal(b, "payment", paid, troupe.After(packed))
		return troupe.Step2(b, "send", func(_ context.Context, _, parcel string, p payment) (string, error) {
			if p.Cents == 0 {
				return "", errors.New("nothing was paid")
			}
			return parcel + ", paid, sent", nil
		}, packed, money, tries)
	})
}

// A signal that comes before its step waits for it, and one that comes before its run brings it.
func TestASignalThatComesEarly(t *testing.T) {
	inMemory(t, troupe.Config{}, parcels(), func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[string, string]) {
		run, err := handle.RunNoWait(t.Context(), "p-1", troupe.At(time.Now().Add(time.Hour)))
		require.NoError(t, err)
		require.NoError(t, paid.Send(t.Context(), run, payment{100}), "the run has not begun")
		text, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "p-1 packed, paid, sent", text)

		// The payment service may be faster than the shop, and delivers again until it is heard.
		for range 2 {
			_, err := handle.TriggerWithSignal(t.Context(), "p-2", paid.With(payment{100}, troupe.SignalID("delivery-1")), troupe.Key("p-2"))
			require.NoError(t, err)
		}
		synctest.Wait()
		run, err = handle.RunNoWait(t.Context(), "p-2", troupe.Key("p-2"))
		require.NoError(t, err)
		require.True(t, run.Existing())
		text, err = run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "p-2 packed, paid, sent", text)
	})
}

func TestASignalThatComesEarlyUnderFaults(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 20}, func(s *simtest.Sim) {
		w := simtest.Register(s, parcels())
		var run *simtest.Started[string]
		if s.Rand().IntN(2) == 0 {
			run = simtest.StartWithSignal(w, "p-1", paid, payment{100}, troupe.Key("p-1"))
			s.Sometimes("the payment was first", true)
		} else {
			run = w.Start("p-1", troupe.Key("p-1"))
			require.Equal(s, run.ID(), simtest.StartWithSignal(w, "p-1", paid, payment{100}, troupe.Key("p-1")).ID())
			s.Sometimes("the order was first", true)
		}
		text, err := run.Await()
		require.NoError(s, err)
		require.Equal(s, "p-1 packed, paid, sent", text)
	})
}

// desk is an HTTP service where people approve invoices: a row says who did, and the signal is sent
// in the transaction that stores it. Both are there, or neither.
func desk(pool *pgxpool.Pool, handle *troupe.Handle[string, string]) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /invoices/{id}/approval", func(w http.ResponseWriter, r *http.Request) {
		ctx, id, by := r.Context(), r.PathValue("id"), r.FormValue("by")
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `insert into approvals (invoice, clerk) values ($1, $2)`, id, by); err != nil {
				return err
			}
			return approved.SendTx(ctx, tx, handle.ByKey("", id), approval{by}, troupe.SignalID("approval of "+id))
		})
		switch {
		case errors.Is(err, troupe.ErrRunNotFound):
			http.Error(w, "there is no such invoice", http.StatusNotFound)
		case errors.Is(err, troupe.ErrRunEnded):
			http.Error(w, "the invoice is settled", http.StatusConflict)
		case err != nil:
			http.Error(w, "it was not stored: try again", http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	return mux
}

func TestSendTx(t *testing.T) {
	ask := func(context.Context, string) error { return nil }
	onPostgres(t, invoices(ask), func(t *testing.T, pool *pgxpool.Pool, handle *troupe.Handle[string, string]) {
		_, err := pool.Exec(t.Context(), `create table approvals (invoice text primary key, clerk text not null)`)
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = pool.Exec(context.Background(), `drop table approvals`) })
		server := desk(pool, handle)
		post := func(id, by string) int {
			answer := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/invoices/"+id+"/approval", strings.NewReader(url.Values{"by": {by}}.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			server.ServeHTTP(answer, r.WithContext(t.Context()))
			return answer.Code
		}
		require.Equal(t, http.StatusNotFound, post("i-1", "ann"))
		run, err := handle.RunNoWait(t.Context(), "i-1", troupe.Key("i-1"))
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, post("i-1", "ann"))
		require.Equal(t, http.StatusInternalServerError, post("i-1", "bob"), "the row is there, so that this one rolls back")
		text, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "i-1 paid, approved by ann", text)
		_, err = pool.Exec(t.Context(), `delete from approvals`)
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, post("i-1", "ann"), "the run has the signal of this id")
	})
}
