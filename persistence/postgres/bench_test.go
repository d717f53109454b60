package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// BenchmarkDiamond measures the whole life of four-step diamonds on one pod
// without actors: triggers, claims and records in batches, each by one
// goroutine that takes whatever accumulated, as intake, claimer and journal
// do. One operation is one task.
//
//	go test ./persistence/postgres -run - -bench Diamond -benchtime 200000x
func BenchmarkDiamond(b *testing.B) {
	for _, tenants := range []int{1, 100} {
		b.Run(fmt.Sprintf("batches/tenants=%d", tenants), func(b *testing.B) {
			newLoad(b, storetest.Diamond(), tenants).run(b.N/4 + 1)
		})
	}
}

// load drives one pod.
type load struct {
	b        *testing.B
	ctx      context.Context
	store    *Store
	graph    *workflow.Graph
	handlers []int32
	pod      int64
	tenants  int

	window  int // tasks in flight
	ended   atomic.Int64
	running atomic.Int64
	claims  atomic.Uint64
}

func newLoad(b *testing.B, graph *workflow.Graph, tenants int) *load {
	b.Helper()
	d := openDatabase(b, Options{})
	l := &load{b: b, ctx: b.Context(), store: d.store, graph: graph, tenants: tenants, window: 4000}
	numbers, err := d.store.RegisterDefinitions(l.ctx, []*workflow.Graph{l.graph}, nil)
	require.NoError(b, err)
	l.handlers = numbers[0]
	l.pod, _, err = d.store.JoinPod(l.ctx, persistence.PodInfo{
		Name: "bench", Handlers: l.handlers, Queues: []string{registry.DefaultQueue}, Slots: l.window, TTL: time.Hour,
	})
	require.NoError(b, err)
	require.NoError(b, d.analyze(l.ctx)) // empty tables: the statistics that plans must not depend on
	return l
}

func (l *load) draft(n int) []persistence.Trigger {
	list := make([]persistence.Trigger, n)
	for i := range list {
		var random [10]byte
		_, _ = rand.Read(random[:])
		list[i] = persistence.Trigger{
			Run: workflow.NewRunID(time.Now(), random), Definition: l.graph.Hash, Workflow: l.graph.Name,
			Tenant: fmt.Sprintf("tenant-%d", i%l.tenants), Input: []byte(`{"order":12345,"customer":"c-77"}`), Origin: "api",
		}
	}
	return list
}

// run triggers runs and completes all of their tasks.
func (l *load) run(runs int) {
	granted := make(chan []persistence.Grant, 64)
	var group sync.WaitGroup
	l.b.ResetTimer()
	start := time.Now()
	group.Go(func() { l.intake(runs) })
	group.Go(func() { l.claimer(runs, granted) })
	group.Go(func() { l.journal(runs, granted) })
	group.Wait()
	l.report(runs, start)
}

// report tells throughput and, because other load distorts that, the server's
// CPU time per task, where the server runs on this machine.
func (l *load) report(runs int, start time.Time) {
	tasks := float64(4 * runs)
	l.b.ReportMetric(tasks/time.Since(start).Seconds(), "tasks/s")
	if used := serverCPU(l.b, l.store); used > 0 {
		l.b.ReportMetric(float64(used.Microseconds())/tasks, "server-µs/task")
	}
}

// serverCPU returns the CPU time of the sessions of a store, 0 if unknown.
func serverCPU(b *testing.B, s *Store) time.Duration {
	b.Helper()
	rows, err := s.Conns.Query(b.Context(), `select pid from pg_stat_activity where datname = current_database()
		and application_name = 'troupe'`)
	require.NoError(b, err)
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(b, err)
	const tick = 10 * time.Millisecond // USER_HZ of Linux
	var used time.Duration
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')'):]))
		for _, field := range fields[12:14] { // utime, stime
			ticks, err := strconv.Atoi(field)
			require.NoError(b, err)
			used += time.Duration(ticks) * tick
		}
	}
	return used
}

func (l *load) intake(runs int) {
	for runs > 0 {
		n := min(runs, persistence.TriggerBatchMax)
		_, err := l.store.TriggerRuns(l.ctx, l.draft(n), persistence.GrantRequest{})
		l.check(err)
		runs -= n
	}
}

func (l *load) claimID() persistence.ClaimID {
	var id persistence.ClaimID
	n := l.claims.Add(1)
	for i := range 8 {
		id[i] = byte(n >> (8 * i))
	}
	return id
}

func (l *load) claimer(runs int, granted chan<- []persistence.Grant) {
	defer close(granted)
	for int(l.ended.Load()) < runs {
		free := l.window - int(l.running.Load())
		if free < 100 {
			time.Sleep(100 * time.Microsecond)
			continue
		}
		out, err := l.store.ClaimTasks(l.ctx, persistence.ClaimRequest{
			GrantRequest: persistence.GrantRequest{Pod: l.pod, Claim: l.claimID(), Queues: []string{registry.DefaultQueue}, Limit: min(free, persistence.ClaimMax), Handlers: l.handlers},
			Suspects:     true,
		})
		l.check(err)
		if len(out.Grants) == 0 {
			time.Sleep(500 * time.Microsecond)
			continue
		}
		l.running.Add(int64(len(out.Grants)))
		granted <- out.Grants
	}
}

func (l *load) journal(runs int, granted <-chan []persistence.Grant) {
	var held []persistence.Grant
	for int(l.ended.Load()) < runs {
		if len(held) == 0 {
			held = append(held, <-granted...)
		}
		for more := true; more && len(held) < persistence.RecordBatchMax; {
			select {
			case grants := <-granted:
				held = append(held, grants...)
			default:
				more = false
			}
		}
		n := min(len(held), persistence.RecordBatchMax)
		record := l.record(held[:n])
		held = held[n:]
		out, err := l.store.RecordTransitions(l.ctx, record)
		l.check(err)
		for _, answer := range out.Answers {
			if answer.Result != lifecycle.Moved {
				l.b.Errorf("answer %v", answer)
			}
		}
		l.running.Add(int64(len(out.Grants) - n))
		held = append(held, out.Grants...)
		l.ended.Add(int64(len(out.Wake.Ended)))
	}
	for range granted {
	}
}

func (l *load) record(grants []persistence.Grant) persistence.Record {
	record := persistence.Record{
		GrantRequest: persistence.GrantRequest{Pod: l.pod, Claim: l.claimID(), Limit: l.window, Handlers: l.handlers, Queues: []string{registry.DefaultQueue}}, MaxLost: 3,
	}
	for _, g := range grants {
		record.Transitions = append(record.Transitions, persistence.Transition{
			Task: g.Task, Epoch: g.Epoch, Report: lifecycle.Succeeded, Output: []byte(`{"rows":17,"status":"ok","took":3}`),
		})
	}
	return record
}

func (l *load) check(err error) {
	if err != nil {
		l.b.Error(err)
		panic(err)
	}
}
