package actors

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// watches are what the actors of a pod are at. No actor waits for anything while it handles
// a message, so one that does not come back from one is held by the embedder's code that
// it calls, which is Metrics, and so are all messages behind that one. It is safe for
// concurrent use.
type watches struct {
	began time.Time
	mu    sync.Mutex
	all   map[string]*watch // by actor; of runs' there is none, each holds up one task
}

// watch is the message that one actor handles.
type watch struct {
	since atomic.Int64 // of watches.began, in nanoseconds; 0: it handles none
}

func newWatches(now time.Time) *watches {
	return &watches{began: now.Add(-time.Nanosecond), all: map[string]*watch{}} // nobody begins at 0
}

func (w *watches) of(name string) *watch {
	if name == runName {
		return &watch{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all[name] == nil {
		w.all[name] = &watch{}
	}
	return w.all[name]
}

// longest is the actor that has been at one message for longest, and for how long.
func (w *watches) longest(now time.Time) (name string, longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for of, watch := range w.all {
		if since := watch.since.Load(); since != 0 {
			if at := now.Sub(w.began.Add(time.Duration(since))); at > longest {
				name, longest = of, at
			}
		}
	}
	return name, longest
}

// stalledAfter is how long an actor may be at one message before its pod says so.
const stalledAfter = 10 * time.Second

// props makes an actor whose turns are watched. name is that of its row in the tree.
func (rt *runtime) props(name string, produce func() receiver) *props {
	watch := rt.watches.of(name)
	return newProps(func() receiver {
		w := watched{receiver: produce(), rt: rt, name: name, watch: watch}
		if strategy, ok := w.receiver.(supervisorStrategy); ok {
			return &watchedSupervisor{watched: w, supervisorStrategy: strategy}
		}
		return &w
	}, rt.mailbox)
}

// watched is an actor whose turns are watched.
type watched struct {
	receiver
	rt    *runtime
	name  string
	watch *watch
}

// watchedSupervisor is one that protoactor asks about the failures of its children.
type watchedSupervisor struct {
	watched
	supervisorStrategy
}

// Receive implements protoactor's Actor.
func (w *watched) Receive(ctx actorContext) {
	w.watch.since.Store(int64(w.rt.now().Sub(w.rt.watches.began)))
	returned := false
	defer func() {
		if returned {
			w.watch.since.Store(0)
			return
		}
		reason := recover()
		if reason == nil { // runtime.Goexit, which nothing holds up
			w.gone()
			return
		}
		w.watch.since.Store(0)
		panic(reason)
	}()
	w.receiver.Receive(ctx)
	returned = true
}

// gone ends the pod: the goroutine of the actor ends, and with it the actor, though its
// address stays and takes messages. It can be neither restarted nor stopped.
func (w *watched) gone() {
	err := fmt.Errorf("%w: %s", ErrActorGone, w.name)
	w.rt.log.LogAttrs(context.Background(), slog.LevelError, "an actor is gone, the pod ends",
		slog.String("actor", w.name), slog.Any("reason", err))
	if w.name == podName {
		w.rt.boundary.end(err)
		return
	}
	w.rt.send(w.rt.team.pod, &actorGone{err: err})
}

// actorGone tells the pod that one of its actors will neither answer nor stop.
type actorGone struct{ err error }
