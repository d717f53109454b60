package chaos

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// F32: many fan-ins at once, whose parents complete on several pods, while runs
// of the same kind are canceled in numbers.
func TestDeadlockHunt(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F32", Name: "deadlock-hunt", Fault: "64 fan-ins at once, of 24 parents each on 4 pods, while runs are canceled from 8 goroutines",
		FullOnly: true, Must: "I5 I6; the server meets no deadlock",
		Allowed: []figure{none("deadlocks"), atLeast("fan-ins", 64, ""), atLeast("runs canceled", 32, "")},
	})
	tune := brisk()
	tune.Slots = 32
	y := newYard(r, tune, 0)
	pods := y.start("pod-1", "pod-2", "pod-3")
	rounds := spell(1, 5)
	guest, fan := y.guest(r)
	canceled := 0
	for round := range rounds {
		var all sync.WaitGroup
		answers := make(chan bool, 64)
		for worker := range 8 {
			all.Go(func() {
				for i := range 8 {
					run, err := fan.RunNoWait(r.Context(), fmt.Sprintf("%d-%d-%d", round, worker, i))
					if err != nil {
						answers <- false
						continue
					}
					_ = pause(r.Context(), time.Duration(i)*5*time.Millisecond) // so that they are at several stages
					answers <- run.Cancel(r.Context(), "hunt") == nil
				}
			})
		}
		for _, p := range pods {
			y.trigger(p, "fan", 24)
		}
		all.Wait()
		close(answers)
		for ok := range answers {
			if ok {
				canceled++
			}
		}
	}
	y.until("every run has ended", patience, func() bool { return y.number(openSQL) == 0 })
	r.count("fan-ins", rounds*72)
	r.count("runs canceled", canceled)
	r.count("deadlocks", y.number(`select deadlocks::int from pg_stat_database where datname = current_database()`))
	require.NoError(r, guest.Stop(r.Context()))
	y.judge()
}

// guest returns an engine in the test's own process, and its handle of fan: what
// it triggers need not complete.
func (y *yard) guest(r *trial) (*troupe.Engine, *troupe.Handle[string, string]) {
	r.Helper()
	ledger, err := openLedger(filepath.Join(y.dir, "900-guest.ledger"))
	require.NoError(r, err)
	p := &podProcess{ledger: ledger, pool: y.pool}
	spec := podSpec{Name: "guest", Tune: y.tune}
	engine, err := troupe.New(y.pool, spec.config(slog.New(slog.DiscardHandler)))
	require.NoError(r, err)
	fan, err := troupe.Register(engine, p.fan())
	require.NoError(r, err)
	require.NoError(r, engine.Start(r.Context()))
	r.Cleanup(func() {
		_ = engine.Stop(r.Context()) // again, where the test has ended early
		_ = ledger.file.Close()
	})
	return engine, fan
}
