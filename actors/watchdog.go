package actors

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
)

// watchedActors returns the names of the actors that the watchdog watches. Run
// actors handle messages on goroutines of their senders, among these runs.
func watchedActors() (names []string) {
	for _, m := range tree() {
		if !m.many {
			names = append(names, m.name)
		}
	}
	return names
}

// props makes an actor whose turns are watched. name is that of its row in the tree.
func (rt *runtime) props(name string, produce func() receiver) *props {
	turn := rt.watchdog.Turn(name)
	var where dispatcher = roomy{}
	if name == runName {
		where = inline{}
	}
	return newProps(func() receiver {
		w := watched{receiver: produce(), rt: rt, name: name, turn: turn}
		if strategy, ok := w.receiver.(supervisorStrategy); ok {
			return &watchedSupervisor{watched: w, supervisorStrategy: strategy}
		}
		return &w
	}, rt.mailbox, where)
}

// watched is an actor whose turns are watched.
type watched struct {
	receiver
	rt   *runtime
	name string
	turn *vitals.Turn // nil: none
}

// watchedSupervisor is one that protoactor asks about the failures of its children.
type watchedSupervisor struct {
	watched
	supervisorStrategy
}

// Receive implements protoactor's Actor.
func (w *watched) Receive(ctx actorContext) {
	if w.turn != nil {
		w.turn.Enter(w.rt.now())
	}
	returned := false
	defer func() {
		if returned {
			w.leave()
			return
		}
		reason := recover()
		if reason == nil { // runtime.Goexit, which nothing holds up
			w.gone()
			return
		}
		w.leave()
		panic(reason)
	}()
	w.receiver.Receive(ctx)
	returned = true
}

func (w *watched) leave() {
	if w.turn != nil {
		w.turn.Leave()
	}
}

// gone ends the pod: the goroutine of the actor ends, and with it the actor, though its
// address stays and takes messages. It can be neither restarted nor stopped.
func (w *watched) gone() {
	err := fmt.Errorf("%w: %s", ErrActorGone, w.name)
	w.rt.log.LogAttrs(context.Background(), slog.LevelError, "an actor is gone, the pod ends",
		slog.String("actor", w.name), slog.Any("reason", err))
	if w.name == podName {
		w.rt.status.end(err)
		return
	}
	w.rt.send(w.rt.addresses.pod, &actorGone{err: err})
}

// actorGone tells the pod that one of its actors will neither answer nor stop.
type actorGone struct{ err error }
