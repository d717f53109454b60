package postgres

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
)

var (
	churnTime  = flag.Duration("churn.time", 3*time.Second, "BenchmarkChurn: how long runs come and go")
	churnParts = flag.Int("churn.parts", 1, "BenchmarkChurn: comparisons with an empty store in that time")
	churnRate  = flag.Int("churn.rate", 500, "BenchmarkChurn: runs a second")
)

const (
	churnKeep  = 10 * time.Minute // retention, so that history is dropped all the time
	churnSpan  = 5 * time.Minute  // of events
	churnEvery = time.Minute      // what a leader does now and then
	churnMove  = 5 * time.Second  // between two walks that move what has ended
)

// BenchmarkChurn has runs come and go, with history moved and dropped and only
// autovacuum to clean up, and compares from time to time what its rounds take
// with those of a store made for that, the rounds of both taking turns.
//
//	make bench-churn MINUTES=120
func BenchmarkChurn(b *testing.B) {
	old := newGrowth(b, churnSpan)
	old.drains = true
	old.retention = persistence.Retention{churnKeep}
	part := *churnTime / time.Duration(*churnParts)
	runs := 0
	for i := range *churnParts {
		fresh := newGrowth(b, churnSpan)
		fresh.drains = true
		runs += old.churn(part)
		fresh.rounds(growthRounds) // warm
		old.took, fresh.took = taken{}, taken{}
		for range *growthRounds {
			old.round()
			fresh.round()
		}
		old.archive()
		fresh.archive()
		out, empty, sizes := old.took, fresh.took, old.sizes()
		sizes["runs"] = float64(runs)
		old.report(fmt.Sprintf("after=%s", time.Duration(i+1)*part), &out, &empty, sizes)
	}
}

// churn makes rounds at the rate of the flag, and does what a leader does, and
// returns how many runs it made.
func (g *growth) churn(d time.Duration) (runs int) {
	pace := time.NewTicker(time.Second * growthBatch / time.Duration(*churnRate))
	defer pace.Stop()
	end, lead, move := time.Now().Add(d), time.Now(), time.Now()
	for time.Now().Before(end) {
		if !time.Now().Before(lead) {
			lead = lead.Add(churnEvery)
			g.lead()
		}
		if !time.Now().Before(move) {
			g.archive()
			if g.after.IsZero() { // that was the end of a walk
				move = time.Now().Add(churnMove)
			}
		}
		<-pace.C
		g.round()
		runs += growthBatch
	}
	return runs
}

// lead renews the pod's lease and lets go of what is old.
func (g *growth) lead() {
	_, err := g.store.RenewPod(g.ctx, persistence.Renewal{Pod: g.pod, TTL: time.Hour})
	g.check(err)
	for more := true; more; {
		out, err := g.store.RotateEvents(g.ctx, g.leader, churnSpan)
		g.check(err)
		more = out.More
	}
	for more := true; more; {
		out, err := g.store.DropHistory(g.ctx, g.leader, g.retention, time.Time{})
		g.check(err)
		more = out.More
	}
}

// sizes returns what the database holds.
func (g *growth) sizes() map[string]float64 {
	const sql = `select pg_database_size(current_database()) / 1e6, sum(pg_total_relation_size(relid)) / 1e6, sum(n_dead_tup),
			(select count(*) from troupe.run_history)
		from pg_stat_user_tables where relname in ('workflow_runs', 'tasks', 'ready_queue')`
	var all, live, dead, history float64
	require.NoError(g.b, g.store.EmbedderPool.QueryRow(g.ctx, sql).Scan(&all, &live, &dead, &history))
	return map[string]float64{"MB": all, "live-MB": live, "dead-rows": dead, "history-runs": history}
}
