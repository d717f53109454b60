package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster/local"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/memory"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// benchPod is a pod on a store in memory, in real time, whose steps do nothing
// but tell that they were executed: the rest is the cost of the actors.
func benchPod(b *testing.B, slots int, executed func()) (*Pod, persistence.Trigger) {
	b.Helper()
	graph := storetest.Diamond()
	store := memory.New(memory.Options{Now: time.Now})
	numbers, err := store.RegisterDefinitions(b.Context(), []*workflow.Graph{graph}, []string{DefaultQueue})
	require.NoError(b, err)
	functions := map[int32]StepFunction{}
	for i, number := range numbers[0] {
		functions[number] = StepFunction{
			Workflow: graph.Name, Step: graph.Nodes[i].Name, Fingerprint: graph.Nodes[i].Fingerprint,
			Call: func(context.Context, Inputs) (Output, error) {
				executed()
				return Output{}, nil
			},
		}
	}
	number := &atomic.Int64{}
	bus := local.NewBus(store)
	pod, err := Start(b.Context(), Options{
		Ports:     Ports{Store: store, Listener: bus, Notifier: bus, Elector: bus.Elector(number.Load)},
		Functions: functions, Config: Config{Slots: slots}, Joined: number.Store,
		Evaluate: func(trigger *persistence.Trigger) error { trigger.Definition = graph.Hash; return nil },
	})
	require.NoError(b, err)
	b.Cleanup(pod.Kill)
	return pod, persistence.Trigger{Workflow: graph.Name, Definition: graph.Hash, Tenant: "default", Input: []byte("{}")}
}

// BenchmarkPod is the way of a diamond through the actors, from the trigger to
// the end of its last step: one after the other, and many at once.
func BenchmarkPod(b *testing.B) {
	b.Run("alone", func(b *testing.B) {
		executed := make(chan struct{}, 4)
		pod, order := benchPod(b, 10, func() { executed <- struct{}{} })
		b.ReportAllocs()
		for b.Loop() {
			_, _, err := pod.Trigger(b.Context(), []persistence.Trigger{order})
			require.NoError(b, err)
			for range 4 {
				<-executed
			}
		}
	})
	b.Run("many", func(b *testing.B) {
		var executed atomic.Int64
		all := make(chan struct{})
		tasks := int64(4 * b.N)
		pod, order := benchPod(b, 1000, func() {
			if executed.Add(1) == tasks {
				close(all)
			}
		})
		b.ReportAllocs()
		b.ResetTimer()
		for left := b.N; left > 0; {
			batch := make([]persistence.Trigger, min(left, 100))
			for i := range batch {
				batch[i] = order
			}
			_, refused, err := pod.Trigger(b.Context(), batch)
			require.NoError(b, err)
			require.Nil(b, refused)
			left -= len(batch)
		}
		<-all
	})
}

// BenchmarkStartTasks turns grants into messages.
func BenchmarkStartTasks(b *testing.B) {
	at := time.UnixMicro(1_700_000_000_000_000)
	grants := make([]persistence.Grant, 100)
	for i := range grants {
		grants[i] = persistence.Grant{
			Task: workflow.TaskID{Run: workflow.RunID{byte(i)}, Step: 3}, Epoch: 2, Handler: 7, Attempt: 1,
			Workflow: "diamond", Step: "d", Tenant: "default", Input: []byte("{}"),
			Parents: []persistence.Outcome{{Step: "b", State: 10, Output: []byte("1")}, {Step: "c", State: 10, Output: []byte("2")}},
			BegunAt: at, QueuedAt: at, StartedAt: at,
		}
	}
	queue := func(int32) string { return DefaultQueue }
	b.ReportAllocs()
	for b.Loop() {
		if len(startTasks(grants, queue)) != len(grants) {
			b.Fatal("a grant is missing")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(grants)), "ns/task")
}
