package chaos

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
)

// soakLimits say how much what a soak measures may rise in an hour. History
// grows by what was done, and is there to be kept: it is shown.
func soakLimits() []limit {
	shown := math.NaN()
	return []limit{
		{seriesRSS, "MiB", 16, 12},
		{"heap of a pod", "MiB", 16, 12},
		{seriesGoroutines, "", 20, 10},
		{"open files of a pod", "", 4, 8}, // a pod that leads and reads the stream has some sessions more
		{"dead tuples", "", 20_000, 40_000},
		{"dead tuples of the queue", "", 10_000, 20_000},
		{"hot tables", "MiB", 32, 48},
		{"history", "MiB", shown, 0},
		{"WAL written", "MiB/s", 0.5, 0.5},
		{"WAL kept", "MiB", 256, 512},
		{"WAL held by slots", "MiB", 16, 32},
		{"replication slots", "", 1, 1},
		{"connections", "", 4, 4},
		{"runs under way", "", 100, 100},
		{"trigger to start, p50", "ms", 10, 10},
		{"trigger to start, p95", "ms", 100, 100},
		{"ready to claimed, p50", "ms", 10, 10},
		{"ready to claimed, p95", "ms", 100, 100},
	}
}

// warmUp is how long caches and tables take to reach their size. The second half
// of a soak that is shorter than twice that may rise by more.
const (
	warmUp     = 5 * time.Minute
	warmUpMore = 4
)

// trends are the slopes of everything that was measured in a time.
func (s *sampler) trends(duration time.Duration) []trend {
	var trends []trend
	for _, l := range soakLimits() {
		if duration < 2*warmUp {
			l.settling *= warmUpMore
		}
		trends = append(trends, fit(s.series[l.name], l))
	}
	return trends
}

// mightGrow tells whether a leak of memory or goroutines may hide in a series that
// is unclear. A short soak leaves most slopes unclear, as an hour has many of its
// minutes: the rise within it is what it knows. One of what buffers may rise by, and
// less, is no growth however fast it is; if the interval reaches beyond that, the
// soak has not told growth from noise where that was what it was for.
func (t trend) mightGrow() bool {
	return t.Unclear && t.RiseMost > t.Settling && (t.Name == seriesRSS || t.Name == seriesGoroutines)
}

const (
	seriesRSS        = "memory of a pod (RSS)"
	seriesGoroutines = "goroutines of a pod"
)

// judge waits until every run has ended, and checks all that every row checks;
// the fates of runs are those of a soak, where some are meant to fail or to be
// canceled.
func (s *soak) judge() verdict {
	y := s.y
	y.t.Helper()
	y.until("every run has ended", soakWait, func() bool {
		return y.number(`select count(*)::int from troupe.workflow_runs where state < 'completed'`) == 0
	})
	entries, stories := readLedgers(y.t, y.dir), y.stories()
	v := y.judgeTasks(entries, stories)
	y.judgeRuns(entries, &v, wrongFate)
	y.judgeTransactions()
	y.judgeTables()
	y.judgeResources()
	y.t.judged = true
	y.t.note("%v", v)
	return v
}

// wrongFate is what is wrong with the end of a run of a soak; a state of 0 is none
// at all.
func wrongFate(detail string, end lifecycle.State) string {
	ok := map[fate][]lifecycle.State{
		fateCompleted: {lifecycle.Completed}, "tx": {lifecycle.Completed}, fateFailed: {lifecycle.Failed},
		fateEither: {lifecycle.Completed, lifecycle.Canceled},
	}
	if slices.Contains(ok[fate(detail)], end) {
		return ""
	}
	return fmt.Sprintf("meant to be %s, is %v", detail, end)
}

// rateOf is how many in a second.
func rateOf(n int64, d time.Duration) float64 { return float64(n) / max(d.Seconds(), 1) }
