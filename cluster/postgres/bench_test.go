package postgres_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
)

// benchmarkWake measures from the acknowledged commit of an insert to the wake
// of another pod, on an idle server, one at a time.
func benchmarkWake(b *testing.B, w world, next func() cluster.Wake) {
	b.Helper()
	looker, err := pgxpool.New(b.Context(), w.url)
	require.NoError(b, err)
	defer looker.Close()
	insert := strings.ReplaceAll(enqueue, "{schema}", w.schema)
	delays := make([]time.Duration, 0, b.N)
	early := 0
	for b.Loop() {
		before := w.count(b, "select count(*) from troupe.ready_queue")
		committed := make(chan time.Time)
		go func() {
			_, err := w.pool.Exec(b.Context(), insert, 100, 1)
			if err != nil {
				b.Error(err)
			}
			committed <- time.Now()
		}()
		next()
		woken := time.Now()
		var seen int
		if err := looker.QueryRow(b.Context(), "select count(*) from troupe.ready_queue").Scan(&seen); err != nil {
			b.Fatal(err)
		}
		if seen == before {
			early++
		}
		delays = append(delays, woken.Sub(<-committed))
	}
	slices.Sort(delays)
	at := func(share float64) float64 {
		return float64(delays[int(share*float64(len(delays)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(float64(early)/float64(len(delays)), "early/op") // the wake came before the row could be seen
}

func BenchmarkStreamWake(b *testing.B) {
	w := freshWorld(b)
	s := stream(b, w.adapter(b, 1))
	benchmarkWake(b, w, func() cluster.Wake { return s.next(b)[0] })
}

func BenchmarkRelayWake(b *testing.B) {
	w := freshWorld(b)
	h := listen(b, w.adapter(b, 2))
	relay(b, w.adapter(b, 1))
	benchmarkWake(b, w, func() cluster.Wake { return h.next(b).Wakes[0] })
}

// BenchmarkNotifyWake is mode none: the writer notifies after its commit.
func BenchmarkNotifyWake(b *testing.B) {
	w := freshWorld(b)
	h := listen(b, w.adapter(b, 2))
	writer := w.adapter(b, 1)
	notified := make(chan error, 1)
	insert := strings.ReplaceAll(enqueue, "{schema}", w.schema)
	var delays []time.Duration
	for b.Loop() {
		_, err := w.pool.Exec(b.Context(), insert, 100, 1)
		require.NoError(b, err)
		start := time.Now()
		go func() { notified <- writer.Notify(b.Context(), oneReady()) }()
		h.next(b)
		delays = append(delays, time.Since(start))
		require.NoError(b, <-notified)
	}
	slices.Sort(delays)
	b.ReportMetric(float64(delays[len(delays)/2].Microseconds())/1000, "p50-ms")
}

func oneReady() cluster.Notice {
	return cluster.Notice{From: 1, Wakes: []cluster.Wake{{Kind: cluster.WakeReady, Queue: "first", Count: 1}}}
}

// BenchmarkStreamRows measures what a row of a busy stream costs its reader.
func BenchmarkStreamRows(b *testing.B) {
	w := freshWorld(b)
	s := stream(b, w.adapter(b, 1))
	for b.Loop() {
		w.exec(b, enqueue, 100, 1000)
		for rows := 0; rows < 1000; {
			for _, wake := range s.next(b) {
				rows += wake.Count
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "us/row")
}
