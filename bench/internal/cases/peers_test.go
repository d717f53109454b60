package cases

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/bench/internal/peer"
	"github.com/troupe-dev/troupe/bench/internal/roster"
	"github.com/troupe-dev/troupe/bench/internal/server"
	"github.com/troupe-dev/troupe/internal/pgdev"
)

func startServer(t *testing.T) *server.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a PostgreSQL")
	}
	s, err := server.Start(t.Context())
	if errors.Is(err, pgdev.ErrNoServer) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(context.WithoutCancel(t.Context()))) })
	return s
}

// openBench prepares a peer in a fresh database.
func openBench(t *testing.T, on *server.Server, name, setting string) *Bench {
	t.Helper()
	place, err := on.Create(t.Context(), false)
	require.NoError(t, err)
	entry, ok := roster.Find(name)
	require.True(t, ok)
	b, err := Open(t.Context(), Spec{Peer: name, Setting: setting, Quick: true, Place: place}, entry, entry.Shapes)
	require.NoError(t, err)
	return b
}

// Each peer does its shapes in each of its settings, and the large ones in one: what was
// enqueued in bulk before it started, and what came later.
func TestEveryPeerFinishesItsJobs(t *testing.T) {
	on := startServer(t)
	for _, entry := range roster.All() {
		large := false // a setting has done the large shapes
		for _, setting := range entry.Settings {
			t.Run(entry.Name+" "+setting.Name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				b := openBench(t, on, entry.Name, setting.Name)
				p, err := b.open(ctx)
				require.NoError(t, err)
				defer p.Close()
				n := int64(0)
				if setting.Serves(peer.Drain) || setting.Serves(peer.Fairness) {
					require.NoError(t, p.Bulk(ctx, jobs(10, "tenant")))
					n += 10
				}
				require.NoError(t, p.Start(ctx))
				for _, shape := range entry.Shapes {
					times := 3
					if shape.Steps() >= 100 {
						times = 1
					}
					if times == 1 && (large || !setting.Serves(peer.Graph)) {
						continue
					}
					for range times {
						n++
						job := peer.Job{ID: n, Tenant: "tenant", Shape: shape}
						require.NoError(t, p.Enqueue(ctx, job))
						if signaler, is := p.(peer.Signaler); is && shape == peer.Wait {
							require.NoError(t, signaler.Signal(ctx, job))
						}
					}
				}
				large = large || setting.Serves(peer.Graph)
				require.NoError(t, b.finished(ctx, p, n))
				require.Equal(t, n, b.probe.Done(), "each job runs once")
			})
		}
	}
}

// What the limits write is what the product writes: the same rows, with values
// in the same columns.
func TestLimitsDoTheSameDurableWork(t *testing.T) {
	t.Parallel()
	on := startServer(t)
	want := durableWork(t, openBench(t, on, "troupe", "fast"))
	require.NotEmpty(t, want["task_events"])
	require.Equal(t, want, durableWork(t, openBench(t, on, "limit-store", peer.Default)))
	require.Equal(t, want, durableWork(t, openBench(t, on, "limit-sql", peer.Default)))
}

const runs = 40

// durableWork runs diamonds, a chain and a fan-out, and sums up the tables.
func durableWork(t *testing.T, b *Bench) map[string][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := b.started(ctx, 0)
	require.NoError(t, err)
	defer p.Close()
	list := make([]peer.Job, runs)
	for i := range list {
		list[i] = peer.Job{ID: int64(i), Shape: peer.Diamond}
	}
	require.NoError(t, peer.Spread(ctx, 4, list, func(job peer.Job) error { return p.Enqueue(ctx, job) }))
	require.NoError(t, b.finished(ctx, p, runs))
	for i, shape := range []peer.Shape{peer.Chain, peer.FanOut} {
		require.NoError(t, p.Enqueue(ctx, peer.Job{ID: int64(runs + i), Shape: shape}))
	}
	require.NoError(t, b.finished(ctx, p, runs+2))
	got := map[string][]string{}
	for table, query := range map[string]string{
		"task_events": `select format('step %s n %s kind %s: %s rows, %s with pod, %s with attempt, %s with by',
			step, n, kind, count(*), count(pod), count(attempt), count("by")) from troupe.task_events group by step, n, kind order by step, n`,
		"tasks": `select format('step %s state %s epoch %s flags %s pending %s attempt %s: %s rows, %s with pod, %s queued, %s started, %s finished, %s with output',
			step, state, epoch, flags, pending, attempt, count(*), count(nullif(pod, 0)), count(queued_at), count(started_at),
			count(finished_at), count(output)) from troupe.tasks group by step, state, epoch, flags, pending, attempt order by step`,
		"workflow_runs": `select format('state %s events %s remaining %s slow %s: %s rows, %s started, %s finished, %s with input, %s with origin',
			state, events, remaining, slow, count(*), count(started_at), count(finished_at), count(input), count(origin))
			from troupe.workflow_runs group by state, events, remaining, slow`,
		"ready_queue": `select run_id::text from troupe.ready_queue`,
	} {
		rows, err := b.watch.Query(ctx, query)
		require.NoError(t, err)
		got[table], err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
	}
	return got
}

// A copied job is one that the peer can do.
func TestClonedJobsAreDone(t *testing.T) {
	on := startServer(t)
	for _, name := range []string{"dbos", "go-workflows"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			b := openBench(t, on, name, "fast")
			p, err := b.open(ctx)
			require.NoError(t, err)
			defer p.Close()
			const n = 50
			require.NoError(t, b.fill(ctx, p, n))
			require.NoError(t, p.Start(ctx))
			require.NoError(t, b.finished(ctx, p, n))
		})
	}
}
