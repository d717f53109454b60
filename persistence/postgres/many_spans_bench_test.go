package postgres

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

var (
	manySpans     = flag.Int("spans.count", 400, "BenchmarkManySpans: spans of the second store")
	manySpanCalls = flag.Int("spans.calls", 300, "BenchmarkManySpans: calls of each kind")
)

// BenchmarkManySpans measures what callers ask of a run at work, of one that is in
// history, and of all, in a store with many spans of history beside one with a single
// span, call by call in turn, and how long the first call of a store takes.
//
//	go test ./persistence/postgres -run - -bench ManySpans -benchtime 1x
func BenchmarkManySpans(b *testing.B) {
	few, many := newRead(b, 0), newRead(b, *manySpans)
	for _, kind := range readKinds() {
		took := map[*read][]time.Duration{}
		first := map[*read]time.Duration{}
		for call := range *manySpanCalls {
			for _, r := range []*read{few, many} {
				start := time.Now()
				require.NoError(b, kind.ask(r), kind.name)
				if call == 0 {
					first[r] = time.Since(start)
				}
				took[r] = append(took[r], time.Since(start))
			}
		}
		b.Run(fmt.Sprintf("%s/spans=%d", kind.name, *manySpans), func(b *testing.B) {
			for range b.N { // measured already
				continue
			}
			b.ReportMetric(float64(median(took[many]).Microseconds()), "call-µs")
			b.ReportMetric(float64(first[many].Microseconds()), "first-µs")
			b.ReportMetric(float64(median(took[many]))/float64(median(took[few])), "call-ratio")
			b.ReportMetric(float64(first[many])/float64(first[few]), "first-ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// read is a store with a run at work and one in history.
type read struct {
	*load
	live, old workflow.RunID
}

func newRead(b *testing.B, spans int) *read {
	b.Helper()
	r := &read{load: newLoad(b, 1)}
	_, err := r.store.BumpEpoch(r.ctx, 1)
	require.NoError(b, err)
	addSpans(b, r.store, time.Now(), spans)
	r.run(1)
	_, err = r.store.ArchiveRuns(r.ctx, 1, persistence.Archive{Retention: long})
	require.NoError(b, err)
	for more := true; more; {
		out, err := r.store.DropHistory(r.ctx, 1, long, time.Now())
		require.NoError(b, err)
		more = out.More
	}
	require.NoError(b, r.store.pool.QueryRow(r.ctx, `select id from troupe.run_history`).Scan((*[16]byte)(&r.old)))
	list := r.draft(1)
	_, err = r.store.TriggerRuns(r.ctx, list, persistence.GrantRequest{})
	require.NoError(b, err)
	r.live = list[0].Run
	return r
}

// readKinds are what is asked.
func readKinds() []struct {
	name string
	ask  func(*read) error
} {
	status := func(id func(*read) workflow.RunID) func(*read) error {
		return func(r *read) error {
			_, err := r.store.Run(r.ctx, "tenant-0", id(r))
			return err
		}
	}
	return []struct {
		name string
		ask  func(*read) error
	}{
		{"status-at-work", status(func(r *read) workflow.RunID { return r.live })},
		{"status-in-history", status(func(r *read) workflow.RunID { return r.old })},
		{"tasks-at-work", func(r *read) error {
			_, err := r.store.Tasks(r.ctx, "tenant-0", r.live)
			return err
		}},
		{"cancel-of-none", func(r *read) error {
			_, err := r.store.CancelRun(r.ctx, persistence.Cancel{Run: workflow.RunID(uuidMax)})
			if err == nil {
				return fmt.Errorf("run %v exists", uuidMax)
			}
			return nil
		}},
		{"cancel-in-history", func(r *read) error {
			_, err := r.store.CancelRun(r.ctx, persistence.Cancel{Run: r.old})
			return err
		}},
		{"list", func(r *read) error {
			_, err := r.store.ListRuns(r.ctx, persistence.RunFilter{Tenant: "tenant-0", Limit: 10})
			return err
		}},
	}
}
