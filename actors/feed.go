package actors

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// feed owns the sources of wakes and turns what they bring into messages.
//
// Owns: the listener, the replication stream, the notifications that wait to
// be sent, and who waits for the end of a run.
// Parent: pod.
// Accepts: TablesChanged, PodsCounted, TermBegan, TermEnded, AwaitRun,
// CloseFeed.
// Sends: WorkReady, RunsSubmitted, TimerSet, RunsCanceling, CheckCancels,
// AskTerm, LeaderHeard, FeedChanged, RunEnded, AwaitRefused, FeedClosed.
// On failure: restart with backoff; it subscribes anew, asks who leads, and
// sweeps. Who waits for the end of a run is carried over.
type feed struct {
	base
	carryover *feedState
	store     persistence.Runs
	listener  cluster.Listener
	stream    cluster.Stream // nil: there is none
	notifier  cluster.Notifier

	listening  bool
	session    int64  // number of the subscription; messages of older ones are dropped
	stopListen func() // nil: not subscribed
	listenFail int
	hearing    *cluster.Hearing
	heardAt    time.Time // last ping of the current leader

	streaming  bool   // the stream flows
	stopStream func() // nil: none is read
	streamNext bool   // a retry is due
	streamFail int
	streamSaid string // last reason that was logged
	buffer     *wakeBuffer

	counted bool // a renewal has counted the pods
	pods    int
	waiting int // of them, that are not busy
	plan    cluster.Feed
	since   time.Time // when plan began to spare the stream, or ended to
	sweeps  timer

	ends    endPoller // of awaited runs
	outbox  *cluster.Coalescer
	sending call
	sent    []cluster.Wake // by it
	unheard bool           // the last one did because no pod can be notified
	sentAt  time.Time
	armed   bool // a timer will send
	relayed int64
	slots   int // streams that have not ended yet
}

// feedState is what survives a restart of feed.
type feedState struct {
	waiters *waiters
	leading int64 // epoch; 0: this pod does not lead
	closing bool
}

// Messages of the feed to itself.
type (
	listenerUp   struct{ session int64 }
	listenerDown struct {
		session int64
		err     error
	}
	noticeHeard struct {
		session int64
		notice  cluster.Notice
	}
	streamUp   struct{ from *wakeBuffer }
	streamDown struct {
		from *wakeBuffer
		err  error
	}
	streamWoke struct{ from *wakeBuffer }
)

func spawnFeed(rt *runtime, ports *Ports, h *feedState) func() receiver {
	return func() receiver {
		return &feed{
			base: base{rt, rt.addresses.feed}, carryover: h, store: ports.Store, listener: ports.Listener, stream: ports.Stream, notifier: ports.Notifier,
			hearing: &cluster.Hearing{}, pods: 1,
			outbox: cluster.NewCoalescer(cluster.DefaultWakeLimits()),
		}
	}
}

// Receive implements protoactor's Actor.
func (a *feed) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		a.onStarted()
	case *listenerUp:
		a.onListenerUp(msg)
	case *listenerDown:
		a.onListenerDown(msg)
	case *noticeHeard:
		if msg.session == a.session {
			a.onNotice(&msg.notice)
		}
	case *streamUp:
		a.onStreamUp(msg)
	case *streamDown:
		a.onStreamDown(msg)
	case *streamWoke:
		a.onStreamWoke(msg)
	case *messages.TablesChanged:
		a.onTablesChanged(msg)
	case *messages.PodsCounted:
		a.counted, a.pods, a.waiting = true, int(msg.GetPods()), int(msg.GetWaiting())
		a.replan()
	case *messages.TermBegan:
		a.carryover.leading, a.relayed = msg.GetEpoch(), 0
		a.replan()
		a.tellLeader()
	case *messages.TermEnded:
		a.carryover.leading = 0
		a.replan()
	case *messages.AwaitRun:
		a.carryover.waiters.accept(ctx.Sender(), msg, a.carryover.closing)
	case *runRead:
		a.carryover.waiters.onRead(msg)
	case *happened:
		a.handle(msg)
	case *messages.CloseFeed:
		a.onClose()
	case *restarting, *stopping:
		a.rt.guarded("feed", a.unsubscribe)
	case *stopped:
	default:
		a.rt.unknown("feed", msg)
	}
}

func (a *feed) onStarted() {
	a.carryover.waiters.begin()
	if a.carryover.closing {
		a.onClose()
		return
	}
	a.lookAtEnds()
	a.listen()
	a.replan()
	a.rt.send(a.rt.addresses.leader, &messages.AskTerm{}) // the last incarnation may have failed as it was told
}

func (a *feed) listen() {
	if a.carryover.closing {
		return
	}
	rt, self, listener, session := a.rt, a.self, a.listener, a.rt.numbers.next()
	a.session = session
	a.stopListen = rt.executor.Follow(self, "listen", func(ctx context.Context) any {
		err := containedLoop(func() error {
			return listener.Listen(ctx,
				func() { rt.send(self, &listenerUp{session: session}) },
				func(n cluster.Notice) { rt.send(self, &noticeHeard{session: session, notice: n}) })
		})
		return &listenerDown{session: session, err: err}
	})
}

// onListenerUp sweeps: earlier notifications were not heard.
func (a *feed) onListenerUp(m *listenerUp) {
	if m.session != a.session {
		return
	}
	a.listening, a.listenFail = true, 0
	a.rt.status.with(func(f *podFacts) { f.unheard = time.Time{} })
	a.hearing, a.heardAt = &cluster.Hearing{}, time.Time{}
	a.sweep()
	a.replan()
}

func (a *feed) onListenerDown(m *listenerDown) {
	if m.session != a.session {
		return
	}
	a.listening = false
	if a.carryover.closing {
		return
	}
	a.listenFail++
	a.rt.status.with(func(f *podFacts) {
		if f.unheard.IsZero() {
			f.unheard = a.rt.now()
		}
	})
	a.rt.storeFailed("listen", m.err)
	a.later(a.rt.retryDelay(a.listenFail), a.listen)
	a.replan()
}

func (a *feed) onNotice(n *cluster.Notice) {
	if n.Ping != nil {
		a.heardAt = a.rt.now()
		a.rt.send(a.rt.addresses.leader, &messages.LeaderHeard{Epoch: n.Ping.Epoch, Resigned: n.Ping.Resigned})
	}
	a.count(n)
	missed := a.hearing.Hear(*n)
	if n.From != a.rt.status.get().number {
		a.rt.recorder.add(MetricWakes, float64(len(n.Wakes)), "notice")
		a.apply(n.Wakes)
		if missed {
			a.sweep()
		}
	}
	if n.Ping != nil {
		a.replan()
		if a.carryover.leading == 0 { // unless the next one comes first, it has fallen silent
			a.later(a.rt.config.FeedSilence, a.replan)
		}
	}
}

// apply passes wakes on to whom they concern.
func (a *feed) apply(wakes []cluster.Wake) {
	canceling := &messages.RunsCanceling{}
	for i := range wakes {
		w := &wakes[i]
		switch w.Kind {
		case cluster.WakeReady:
			a.rt.send(a.rt.addresses.claimer, &messages.WorkReady{Queue: w.Queue, Count: int32(w.Count), Key: w.Key, Foreign: true})
		case cluster.WakeSubmitted:
			a.rt.send(a.rt.addresses.intake, &messages.RunsSubmitted{})
		case cluster.WakeTimer:
			a.rt.send(a.rt.addresses.leader, &messages.TimerSet{At: nanos(w.At)})
		case cluster.WakeEnded:
			a.ended(w)
		case cluster.WakeCanceling:
			canceling.All = canceling.GetAll() || w.Run.IsZero()
			canceling.Runs = append(canceling.Runs, w.Run[:])
		}
	}
	if len(canceling.GetRuns()) > 0 {
		a.rt.send(a.rt.addresses.runs, canceling)
		if canceling.GetAll() {
			a.rt.send(a.rt.addresses.pulse, &messages.CheckCancels{})
		}
	}
}

func (a *feed) ended(w *cluster.Wake) {
	if w.Run.IsZero() {
		a.lookAtEnds()
		return
	}
	a.rt.status.hint(w.Run)
	a.carryover.waiters.check(w.Run)
}

// onTablesChanged tells this pod, and other pods if no stream does.
func (a *feed) onTablesChanged(m *messages.TablesChanged) {
	wakes := wakesOf(m)
	for i := range wakes {
		if wakes[i].Kind == cluster.WakeReady {
			wakes[i].Key = uint64(a.rt.numbers.next()) //nolint:gosec // any number will do
			continue                                   // the claimer heard of it before
		}
		a.apply(wakes[i : i+1])
	}
	if a.plan.Notify {
		a.outbox.Add(wakes...)
		a.send()
	}
	if m.GetSubmitted() && a.plan.Mode == cluster.ModeSpared {
		a.replan() // the embedder's transactions need the stream
	}
}

// sweep makes every actor look at the tables once.
func (a *feed) sweep() {
	if a.carryover.closing {
		return
	}
	a.rt.recorder.add(MetricWakes, 1, "sweep")
	a.rt.send(a.rt.addresses.claimer, &messages.WorkReady{})
	if view := a.view(); view.Leading || !view.Told(a.times()) {
		a.rt.send(a.rt.addresses.intake, &messages.RunsSubmitted{}) // one pod is enough: the leader
	}
	a.rt.send(a.rt.addresses.leader, &messages.TimerSet{})
	a.lookAtEnds()
	a.armSweep()
}

// armSweep spreads sweeps by a tenth, so that pods do not sweep in step.
func (a *feed) armSweep() {
	wait := a.plan.Sweep + time.Duration((a.rt.chance()-0.5)*float64(a.plan.Sweep)/5)
	if a.rt.buggify("sweep at once") {
		wait = time.Millisecond
	}
	a.sweeps.set(&a.base, wait, a.sweep)
}

// onClose sends what waits, and says so once the slot is gone, too.
func (a *feed) onClose() {
	a.carryover.closing = true
	a.unsubscribe()
	a.carryover.waiters.refuseAll("the pod is stopping: ask another one")
	if a.outbox.Len() > 0 {
		a.onSendDue()
	}
	if !a.sending.open() && a.slots == 0 {
		a.rt.send(a.rt.addresses.pod, &messages.FeedClosed{})
	}
}

func (a *feed) unsubscribe() {
	a.dropStream()
	if a.stopListen != nil {
		a.stopListen()
		a.stopListen = nil
	}
}
