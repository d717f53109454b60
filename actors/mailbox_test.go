package actors

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// notes is an actor that notes what it gets.
type notes struct {
	got  *[]string
	done chan struct{}
}

func (n *notes) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		*n.got = append(*n.got, "started")
	case string:
		*n.got = append(*n.got, msg)
		if msg == "last" {
			close(n.done)
		}
	}
}

// TestMessagesToAnActorThatIsBeingSpawned: siblings send to addresses that
// they know before the actor is there.
func TestMessagesToAnActorThatIsBeingSpawned(t *testing.T) {
	t.Parallel()
	system := newSystem(slog.New(slog.DiscardHandler))
	for i := range 200 {
		var got []string
		done := make(chan struct{})
		pid := system.NewLocalPID(fmt.Sprintf("early-%d", i))
		var sender sync.WaitGroup
		spawned := make(chan struct{})
		sender.Go(func() {
			for open := true; open; {
				select {
				case <-spawned:
					open = false
				default:
				}
				system.Root.Send(pid, "early")
			}
			system.Root.Send(pid, "last")
		})
		_, err := system.Root.SpawnNamed(newProps(func() receiver { return &notes{got: &got, done: done} }, nil), pid.GetId())
		require.NoError(t, err)
		close(spawned)
		sender.Wait()
		<-done
		require.Equal(t, "started", got[0])
		require.Equal(t, "last", got[len(got)-1])
		system.Root.Stop(pid)
	}
}
