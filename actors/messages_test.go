package actors

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// probe is an actor of the embedder's that notes the answers to it.
type probe struct {
	system  *System
	pid     *PID
	answers chan any
}

func newProbe(w *world, system *System) *probe {
	p := &probe{system: system, answers: make(chan any, 2000)}
	p.pid = system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started, *actor.Stopping, *actor.Stopped:
		case askFor:
			ctx.Request(m.pod, m.question)
		default:
			p.answers <- m
		}
	}))
	w.t.Cleanup(func() { system.Root.Stop(p.pid) })
	return p
}

// askFor makes the probe ask from its own Receive.
type askFor struct {
	pod      *PID
	question any
}

func (p *probe) ask(pod *Pod, question any) {
	p.system.Root.Send(p.pid, askFor{pod.PID(), question})
}

func (p *probe) next() any { return <-p.answers }

// as checks the kind of an answer.
func as[M any](t *testing.T, answer any) M {
	t.Helper()
	m, ok := answer.(M)
	require.True(t, ok, "%T", answer)
	return m
}

// TestOwnActorSystem: an actor of the embedder's, in a system of the
// embedder's, triggers, cancels and awaits, and is answered each time.
func TestOwnActorSystem(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), newGauge().work(10*time.Second))
		w.system = newSystem(slog.New(slog.DiscardHandler))
		p := w.start(Config{})
		require.Same(t, w.system, p.System())
		probe := newProbe(w, w.system)

		probe.ask(p, &messages.TriggerRun{RequestId: "1", Workflow: "single", Input: []byte("{}"), Key: "k"})
		triggered := as[*messages.RunTriggered](t, probe.next())
		require.Equal(t, "1", triggered.GetRequestId())
		require.False(t, triggered.GetExisting())
		probe.ask(p, &messages.TriggerRun{RequestId: "2", Workflow: "single", Input: []byte("{}"), Key: "k"})
		again := as[*messages.RunTriggered](t, probe.next())
		require.True(t, again.GetExisting())
		require.Equal(t, triggered.GetRun(), again.GetRun())
		probe.ask(p, &messages.TriggerRun{RequestId: "3", Workflow: "single", Input: []byte("[]"), Key: "k"})
		conflict := as[*messages.TriggerRefused](t, probe.next())
		require.Equal(t, messages.TriggerRefused_CODE_KEY_CONFLICT, conflict.GetCode())
		require.Equal(t, triggered.GetRun(), conflict.GetRun())

		probe.ask(p, &messages.AwaitRun{RequestId: "4", Run: triggered.GetRun()})
		ended := as[*messages.RunEnded](t, probe.next())
		require.Equal(t, "completed", ended.GetState())
		require.Equal(t, "1", string(ended.GetOutput()))
		probe.ask(p, &messages.AwaitRun{RequestId: "5", Run: triggered.GetRun(), Tenant: "other"})
		require.Equal(t, messages.AwaitRefused_CODE_UNKNOWN_RUN, as[*messages.AwaitRefused](t, probe.next()).GetCode())

		run := w.trigger(p, "single")
		probe.ask(p, &messages.AwaitRun{RequestId: "6", Run: run[:]})
		probe.ask(p, &messages.CancelRun{RequestId: "7", Run: run[:], Reason: "changed my mind"})
		for range 2 { // in either order
			switch m := probe.next().(type) {
			case *messages.CancelRecorded:
				require.Equal(t, "7", m.GetRequestId())
			default:
				require.Equal(t, "canceled", as[*messages.RunEnded](t, m).GetState())
			}
		}
		probe.ask(p, &messages.CancelRun{RequestId: "8", Run: run[:]})
		require.True(t, as[*messages.CancelRecorded](t, probe.next()).GetEndedBefore())
		probe.ask(p, &messages.CancelRun{RequestId: "9", Run: []byte("nonsense")})
		require.Equal(t, messages.CancelRefused_CODE_UNKNOWN_RUN, as[*messages.CancelRefused](t, probe.next()).GetCode())
		probe.ask(p, &messages.AwaitRun{RequestId: "10", Run: nil})
		require.Equal(t, messages.AwaitRefused_CODE_UNKNOWN_RUN, as[*messages.AwaitRefused](t, probe.next()).GetCode())
	})
}

// TestAwaitOutlivesTheFeed: who waits for a run is answered although the feed
// failed meanwhile.
func TestAwaitOutlivesTheFeed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.single(newGauge().work(10*time.Second), Config{})
		run := w.trigger(p, "single")
		probe := newProbe(w, p.System())
		probe.ask(p, &messages.AwaitRun{RequestId: "r", Run: run[:]})
		pass(time.Second)
		kill(p, "feed")
		require.Equal(t, "r", as[*messages.RunEnded](t, probe.next()).GetRequestId())
	})
}

// TestBadTriggers: what cannot be stored is refused with the field and what to
// do about it.
func TestBadTriggers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.single(newGauge().work(time.Second), Config{PayloadLimit: 1000})
		probe := newProbe(w, p.System())
		many := map[string]string{}
		for i := range labelsMax + 1 {
			many[strings.Repeat("x", i+1)] = ""
		}
		for name, c := range map[string]struct {
			change func(*messages.TriggerRun)
			code   messages.TriggerRefused_Code
			field  string
		}{
			"no workflow":      {func(m *messages.TriggerRun) { m.Workflow = "" }, messages.TriggerRefused_CODE_BAD_INPUT, "workflow"},
			"unknown workflow": {func(m *messages.TriggerRun) { m.Workflow = "other" }, messages.TriggerRefused_CODE_UNKNOWN_WORKFLOW, "workflow"},
			"NUL in workflow":  {func(m *messages.TriggerRun) { m.Workflow = "a\x00" }, messages.TriggerRefused_CODE_BAD_INPUT, "workflow"},
			"NUL in tenant":    {func(m *messages.TriggerRun) { m.Tenant = "a\x00" }, messages.TriggerRefused_CODE_BAD_INPUT, "tenant"},
			"long tenant":      {func(m *messages.TriggerRun) { m.Tenant = strings.Repeat("x", 256) }, messages.TriggerRefused_CODE_LIMIT, "tenant"},
			"long key":         {func(m *messages.TriggerRun) { m.Key = strings.Repeat("x", 1025) }, messages.TriggerRefused_CODE_LIMIT, "key"},
			"key not UTF-8":    {func(m *messages.TriggerRun) { m.Key = "\xff" }, messages.TriggerRefused_CODE_BAD_INPUT, "key"},
			"unknown queue":    {func(m *messages.TriggerRun) { m.Queue = "nobody" }, messages.TriggerRefused_CODE_BAD_INPUT, "queue"},
			"NUL in origin":    {func(m *messages.TriggerRun) { m.Origin = "\x00" }, messages.TriggerRefused_CODE_BAD_INPUT, "origin"},
			"long trace":       {func(m *messages.TriggerRun) { m.TraceContext = strings.Repeat("x", 1025) }, messages.TriggerRefused_CODE_LIMIT, "trace_context"},
			"large input":      {func(m *messages.TriggerRun) { m.Input = make([]byte, 1001) }, messages.TriggerRefused_CODE_LIMIT, "input"},
			"bad input":        {func(m *messages.TriggerRun) { m.Input = []byte("bad") }, messages.TriggerRefused_CODE_BAD_INPUT, "input"},
			"before 1970":      {func(m *messages.TriggerRun) { m.At = -1 << 62 }, messages.TriggerRefused_CODE_BAD_INPUT, "at"},
			"many labels":      {func(m *messages.TriggerRun) { m.Labels = many }, messages.TriggerRefused_CODE_LIMIT, "labels"},
			"nameless label":   {func(m *messages.TriggerRun) { m.Labels = map[string]string{"": "x"} }, messages.TriggerRefused_CODE_BAD_INPUT, "labels"},
			"half a hash":      {func(m *messages.TriggerRun) { m.Definition = make([]byte, 16) }, messages.TriggerRefused_CODE_BAD_INPUT, "definition"},
			"other version":    {func(m *messages.TriggerRun) { m.Definition = make([]byte, 32) }, messages.TriggerRefused_CODE_UNKNOWN_WORKFLOW, "definition"},
		} {
			m := &messages.TriggerRun{RequestId: name, Workflow: "single", Input: []byte("{}")}
			c.change(m)
			probe.ask(p, m)
			refused := as[*messages.TriggerRefused](t, probe.next())
			require.Equal(t, name, refused.GetRequestId())
			require.Equal(t, c.code, refused.GetCode(), name)
			require.Equal(t, c.field, refused.GetField(), name)
			require.NotEmpty(t, refused.GetRemedy(), name)
		}
		require.Empty(t, w.store.Snapshot().Runs, "nothing was stored")
	})
}

// TestOverload: messages are refused when too many wait; calls wait for room
// as long as their context does; a stopping pod refuses.
func TestOverload(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), newGauge().work(time.Second))
		const pending = 3
		p := w.start(Config{IntakePending: pending, TriggerTimeout: time.Hour})
		gate := make(chan struct{})
		w.faults.failBefore(func(_ context.Context, call string) error {
			if call == "trigger" {
				<-gate
			}
			return nil
		})
		probe := newProbe(w, p.System())
		const room = pending
		for range room + 1 {
			probe.ask(p, &messages.TriggerRun{Workflow: "single", Input: []byte("{}")})
		}
		refused := as[*messages.TriggerRefused](t, probe.next())
		require.Equal(t, messages.TriggerRefused_CODE_OVERLOADED, refused.GetCode())
		require.NotEmpty(t, refused.GetRemedy())
		pass(time.Second)

		answers := make(chan error, pending)
		for range pending {
			go func() {
				_, refused, err := p.Trigger(t.Context(), []persistence.Trigger{w.order("single")})
				if refused != nil {
					err = refused
				}
				answers <- err
			}()
		}
		pass(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := p.Trigger(ctx, []persistence.Trigger{w.order("single")})
		require.ErrorIs(t, err, context.DeadlineExceeded, "the permits are taken")

		stopped := make(chan error, 1)
		go func() { stopped <- p.Stop(t.Context()) }()
		pass(time.Second)
		for len(probe.answers) > 0 {
			probe.next()
		}
		probe.ask(p, &messages.TriggerRun{RequestId: "late", Workflow: "single", Input: []byte("{}")})
		late := as[*messages.TriggerRefused](t, probe.next())
		require.Equal(t, messages.TriggerRefused_CODE_STOPPING, late.GetCode())
		close(gate)
		for range pending {
			require.NoError(t, <-answers, "what was taken in is stored")
		}
		require.NoError(t, <-stopped)
		require.Len(t, w.store.Snapshot().Runs, room+pending)
	})
}

// TestEndAnswersEverybody: a pod that ends without its database leaves no
// sender without an answer.
func TestEndAnswersEverybody(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.single(newGauge().work(time.Hour), Config{StopGrace: time.Second})
		run := w.trigger(p, "single")
		probe := newProbe(w, p.System())
		probe.ask(p, &messages.AwaitRun{Run: run[:]})
		pass(time.Second)
		w.outage()
		probe.ask(p, &messages.TriggerRun{Workflow: "single", Input: []byte("{}")})
		probe.ask(p, &messages.CancelRun{Run: run[:]})
		pass(time.Second)
		require.NoError(t, p.Stop(t.Context()))
		var refused, canceled, awaited bool
		for range 3 {
			switch m := probe.next().(type) {
			case *messages.TriggerRefused:
				refused = true
				require.Equal(t, messages.TriggerRefused_CODE_UNAVAILABLE, m.GetCode())
			case *messages.CancelRefused:
				canceled = true
				require.Equal(t, messages.CancelRefused_CODE_UNAVAILABLE, m.GetCode())
			case *messages.AwaitRefused:
				awaited = true
				require.Equal(t, messages.AwaitRefused_CODE_STOPPING, m.GetCode())
			}
		}
		require.True(t, refused && canceled && awaited)
	})
}
