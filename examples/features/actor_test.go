package features_test

import (
	"log/slog"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/messages"
)

// An engine can live in the actor system of its embedder. Actors trigger runs
// by sending TriggerRun to its PID, and are answered like by any other actor.
func TestTriggerFromAnActor(t *testing.T) {
	t.Parallel()
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.DiscardHandler)
	}))
	engine, err := troupe.NewInMemory(troupe.Config{System: system})
	require.NoError(t, err)
	start(t, engine, double("double"))

	done := make(chan *messages.RunEnded, 1)
	refused := make(chan *messages.TriggerRefused, 1)
	clerk := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
		return &clerk{engine: engine.PID(), done: done, refused: refused}
	}))
	defer system.Root.Stop(clerk)

	system.Root.Send(clerk, "double")
	ended := <-done
	require.Equal(t, "completed", ended.GetState())
	require.JSONEq(t, `42`, string(ended.GetOutput()))

	system.Root.Send(clerk, "triple")
	refusal := <-refused
	require.Equal(t, messages.TriggerRefused_CODE_UNKNOWN_WORKFLOW, refusal.GetCode())
	require.NotEmpty(t, refusal.GetRemedy())
}

// clerk is an actor of the embedder. Told a workflow's name it triggers a run
// of it and waits for its end, without blocking anything.
type clerk struct {
	engine  *actor.PID
	done    chan<- *messages.RunEnded
	refused chan<- *messages.TriggerRefused
}

// Receive implements actor.Actor.
func (c *clerk) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case string:
		ctx.Request(c.engine, &messages.TriggerRun{RequestId: "r-1", Workflow: msg, Input: []byte(`21`), Key: "order-7"})
	case *messages.RunTriggered:
		ctx.Request(c.engine, &messages.AwaitRun{RequestId: msg.GetRequestId(), Run: msg.GetRun()})
	case *messages.TriggerRefused:
		c.refused <- msg
	case *messages.RunEnded:
		c.done <- msg
	}
}
