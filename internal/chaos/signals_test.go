package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/migrations"
)

// F01: whichever pod is killed, no acknowledged signal is lost and none is taken twice.
// Callers send each signal until it is acknowledged, also again afterwards, alone or in
// a transaction of their own.
func TestSignalsUnderKills(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F01", Name: "signals-under-kills", Fault: "3 pods under load with signals, one of them SIGKILLed every 2 s and restarted",
		Must: "I1 I2 I3 I4 I5; each wait has the payload of its own signal",
		Allowed: []figure{
			atLeast("kills", 20, "").inGoTest(3), atLeast("signals acknowledged", 200, "").inGoTest(20),
			atLeast("signals repeated afterwards", 20, "").inGoTest(1), atLeast("runs whose sender was killed", 1, "").inGoTest(0),
			none("acknowledged signals lost"), none("signals taken twice"), none("signals of transactions that were undone"),
			none("waits with the payload of another signal"), none("runs lost"),
		},
	})
	y := newYard(r, brisk(), 8)
	y.each = func(told *podSpec) { told.Signals = true }
	_, err := y.pool.Exec(t.Context(), "create table public.sent (id text primary key)")
	require.NoError(t, err)
	y.start("pod-1", "pod-2", "pod-3")
	y.warm()
	r.count("kills", y.killOften(spell(8*time.Second, time.Minute)))
	y.quiet(patience)
	r.count("runs whose sender was killed", y.sendTheRest())
	y.judge()
	y.judgeSignals()
}

// killOften kills one of three pods every 2 s and starts it again, and returns how many it killed.
func (y *yard) killOften(limit time.Duration) (kills int) {
	y.t.Helper()
	for began := time.Now(); time.Since(began) < limit; {
		y.under(2 * time.Second)
		if p := y.named(fmt.Sprintf("pod-%d", 1+rand.N(3))); p != nil {
			p.kill()
			kills++
			y.spawn(p.name)
		}
	}
	return kills
}

// gates is a workflow with two waits for signals of one name: the first completes with
// its signal, the second has a condition that a pod evaluates. Each payload is to be the
// id of its signal.
func (p *podProcess) gates() *troupe.Workflow[string, string] {
	return troupe.Define("gates", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		a := troupe.Step0(b, "a", p.first)
		first := troupe.WaitSignal(b, "first-gate", opens, troupe.After(a))
		took := troupe.Step1(b, "took", p.next, first)
		second := troupe.WaitSignal(b, "second-gate", opens, troupe.After(took))
		return troupe.Step2(b, "d", func(ctx context.Context, in, one, two string) (string, error) {
			p.ledger.note("took", troupe.Task(ctx).Run.String(), one+" "+two)
			return p.effect(ctx, in)
		}, took, second, troupe.SkipIf(second, func(got string) bool { return got == "" }))
	})
}

var opens = troupe.NewSignal[string]("open")

// signalID is the id, and the payload, of the nth signal to the run with a key.
func signalID(key string, n int) string { return fmt.Sprintf("%s/%d", key, n) }

// open triggers a run with two waits, sends it both signals, and waits for its end.
func (p *podProcess) open(ctx context.Context, n int64, key string) {
	run, sent := p.triggerGates(ctx, n, key)
	if run == nil {
		return
	}
	for i := sent + 1; i <= 2; i++ {
		if i == 2 && n%4 == 0 { // the first wait has begun before the next signal is sent
			_ = pause(ctx, time.Duration(n%7)*10*time.Millisecond) // what is sent looks at ctx itself
		}
		if !p.send(ctx, run, signalID(key, i), (n+int64(i))%3 == 0) {
			return
		}
	}
	if n%2 == 0 && p.send(ctx, run, signalID(key, 1), false) {
		p.ledger.note("repeated", run.ID().String(), signalID(key, 1))
	}
	p.await(ctx, run, key)
}

// triggerGates triggers the run, every third one together with its first signal, and says
// how many were sent. It returns nil if the pod stops.
func (p *podProcess) triggerGates(ctx context.Context, n int64, key string) (run *troupe.Run[string], sent int) {
	if n%3 != 0 {
		return p.store(ctx, "gates", key, troupe.Tenant("tenant-0")), 0
	}
	first := opens.With(signalID(key, 1), troupe.SignalID(signalID(key, 1)))
	for ctx.Err() == nil {
		run, err := p.shapes.byName("gates").TriggerWithSignal(ctx, key, first, troupe.Key(key), troupe.Tenant("tenant-0"))
		if err == nil {
			p.ledger.note("acked", run.ID().String(), "gates")
			p.ledger.note("sent", run.ID().String(), signalID(key, 1))
			return run, 1
		}
		if errors.Is(err, troupe.ErrNotStarted) {
			break
		}
		_ = pause(ctx, 20*time.Millisecond) // the loop looks at ctx itself
	}
	return nil, 0
}

// send sends a signal until that is acknowledged. It returns false if the pod stops.
func (p *podProcess) send(ctx context.Context, run *troupe.Run[string], id string, inTx bool) bool {
	for ctx.Err() == nil {
		var err error
		if inTx {
			err = p.sendInTx(ctx, run, id)
		} else {
			err = opens.Send(ctx, run, id, troupe.SignalID(id))
		}
		switch {
		case err == nil:
			p.ledger.note("sent", run.ID().String(), id)
			return true
		case errors.Is(err, troupe.ErrNotStarted):
			return false
		case errors.Is(err, troupe.ErrRunNotFound), errors.Is(err, troupe.ErrUnknownSignal), errors.Is(err, troupe.ErrRunEnded):
			p.ledger.note("wrong", run.ID().String(), err.Error())
			return false
		}
		_ = pause(ctx, 20*time.Millisecond) // as above
	}
	return false
}

var errUndone = errors.New("the caller undoes it")

// sendInTx stores a row of the caller's own and a signal in one transaction, after one
// with another payload that it undoes.
func (p *podProcess) sendInTx(ctx context.Context, run *troupe.Run[string], id string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	store := func(payload string, last error) error {
		return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
			if err := opens.SendTx(ctx, tx, run, payload, troupe.SignalID(id)); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "insert into public.sent (id) values ($1) on conflict do nothing", id); err != nil {
				return err
			}
			return last
		})
	}
	if err := store("undone", errUndone); !errors.Is(err, errUndone) {
		return cmp.Or(err, errors.New("a transaction was not undone"))
	}
	return store(id, nil)
}

// sendTheRest sends what the callers of killed pods did not come to, and returns to how
// many runs. A signal that they had sent is repeated.
func (y *yard) sendTheRest() int {
	y.t.Helper()
	ctx := y.t.Context()
	rows, err := y.pool.Query(ctx, "select run, key from troupe.run_list where workflow = 'gates' and state in ('pending', 'running')")
	require.NoError(y.t, err)
	type open struct {
		Run troupe.RunID
		Key string
	}
	left, err := pgx.CollectRows(rows, pgx.RowToStructByPos[open])
	require.NoError(y.t, err)
	operator, err := troupe.OpenOperator(ctx, y.pool, migrations.DefaultSchema, "chaos")
	require.NoError(y.t, err)
	defer func() { require.NoError(y.t, operator.Close()) }()
	unsent := 0
	for _, run := range left {
		all := true
		for n := 1; n <= 2; n++ {
			id := signalID(run.Key, n)
			sent, err := operator.Signal(ctx, troupe.SignalTo{Run: run.Run}, "open", []byte(`"`+id+`"`), troupe.SignalID(id))
			require.NoError(y.t, err)
			all = all && sent.Repeated
		}
		if !all {
			unsent++
		}
	}
	return unsent
}

// judgeSignals checks that acknowledged signals were taken, each by the wait that it was
// for, and that no other was.
func (y *yard) judgeSignals() {
	y.t.Helper()
	entries := readLedgers(y.t, y.dir)
	keys, acked := y.gateRuns(), map[string]bool{}
	lost, runs := 0, 0
	for _, e := range entries {
		switch {
		case e.what == "sent":
			acked[e.detail] = true
		case e.what == "acked" && e.detail == "gates" && keys[e.run] == "":
			runs++
		case e.what == "took":
			key := keys[e.run]
			require.Equal(y.t, signalID(key, 1)+" "+signalID(key, 2), e.detail, "what a step of the run %s got", e.run)
		}
	}
	for id := range acked {
		key, _, _ := strings.Cut(id, "/")
		require.NotEmpty(y.t, key)
		lost += 1 - y.number(`select count(distinct (run, id))::int from troupe.signal_list where workflow = 'gates' and id = $1 and 'taken' = state`, id)
	}
	y.t.count("signals acknowledged", len(acked))
	y.t.count("signals repeated afterwards", count(entries, "repeated"))
	y.t.count("acknowledged signals lost", lost)
	y.t.count("runs lost", runs)
	y.t.count("signals taken twice", y.number(`select (count(*) - count(distinct (run, id)) + count(*) - count(distinct (run, step)))::int
		from troupe.signal_list where 'taken' = state`))
	y.t.count("signals of transactions that were undone", y.number(`select (select count(*) from troupe.signal_list where payload_json #>> '{}' <> id)
		+ (select count(*) from public.sent s where not exists (select from troupe.signal_list i where i.id = s.id))`))
	y.t.count("waits with the payload of another signal", y.number(`select count(*)::int
		from troupe.run_list r left join troupe.step_list s on s.run = r.run and s.step in ('first-gate', 'second-gate')
		where r.workflow = 'gates' and (s.output_json #>> '{}') is distinct from r.key || case s.step when 'first-gate' then '/1' else '/2' end`))
}

// gateRuns returns the keys of the runs of gates that have completed.
func (y *yard) gateRuns() map[string]string {
	y.t.Helper()
	rows, err := y.pool.Query(y.t.Context(), "select run::text, key from troupe.run_list where workflow = 'gates' and state = 'completed'")
	require.NoError(y.t, err)
	keys := map[string]string{}
	var run, key string
	_, err = pgx.ForEachRow(rows, []any{&run, &key}, func() error {
		keys[run] = key
		return nil
	})
	require.NoError(y.t, err)
	return keys
}
