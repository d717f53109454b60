package actors

import (
	"log/slog"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

// listener passes its messages on.
type listener struct{ got chan<- string }

func (l *listener) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		l.got <- "started"
	case string:
		l.got <- msg
	}
}

// TestMessagesBeforeTheActor: siblings send to addresses that they know before
// the actor is attached to its mailbox. What protoactor calls between the two
// is the initialization of props.
func TestMessagesBeforeTheActor(t *testing.T) {
	t.Parallel()
	system := newSystem(slog.New(slog.DiscardHandler))
	got := make(chan string, 10)
	props := newProps(func() receiver { return &listener{got: got} }, nil)
	props.Configure(actor.WithOnInit(func(ctx actor.Context) {
		system.Root.Send(ctx.Self(), "early")
		system.Root.Send(ctx.Self(), "a little later")
	}))
	pid, err := system.Root.SpawnNamed(props, "early")
	require.NoError(t, err)
	system.Root.Send(pid, "late")
	for _, want := range []string{"started", "early", "a little later", "late"} {
		require.Equal(t, want, <-got)
	}
	system.Root.Stop(pid)
}
