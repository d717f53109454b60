package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// BenchmarkArchive moves diamonds of 100 tenants into history, as the leader does. One
// operation is one run; beside the time it tells the server's CPU time.
//
//	go test ./persistence/postgres -run - -bench Archive -benchtime 20000x
func BenchmarkArchive(b *testing.B) {
	l := newLoad(b, storetest.Diamond(), 100)
	epoch, err := l.store.BumpEpoch(l.ctx, l.pod)
	require.NoError(b, err)
	l.run(b.N)
	before := serverCPU(b, l.store)
	b.ResetTimer()
	start := time.Now()
	moved := 0
	for archive := (persistence.Archive{Retention: persistence.Retention{7 * 24 * time.Hour}}); moved < b.N; {
		out, err := l.store.ArchiveRuns(l.ctx, epoch, archive)
		require.NoError(b, err)
		require.Positive(b, out.Count)
		moved, archive.After = moved+out.Count, out.Next
	}
	b.ReportMetric(float64(time.Since(start).Microseconds())/float64(moved), "µs/run")
	if before > 0 {
		b.ReportMetric(float64((serverCPU(b, l.store)-before).Microseconds())/float64(moved), "server-µs/run")
	}
}
