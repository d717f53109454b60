package actors

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

// leader campaigns, and while it is elected keeps the term and the two actors
// that only a leader has. It gives the lead away when these are not answered
// while others live, and campaigns again once anything is.
//
// Owns: the term; the last signs of other leaders.
// Parent: pod. Children while elected: timekeeper, housekeeper.
// Accepts: LeaderHeard, FeedChanged, AskTerm, TimerSet, TermDeposed,
// LeaseFenced, LeaseRestored, Resign.
// Sends: TermBegan, TermEnded, TimerSet, Resigned.
// On failure: restart with backoff. The term is carried over and resigned;
// then it campaigns again.
type leader struct {
	supervision
	rt        *runtime
	pod       int64
	elector   cluster.Elector
	lease     persistence.Lease
	timers    persistence.Timekeeping
	house     housePorts
	carryover *leaderState
	heardAt   time.Time
	heard     bool
	resigned  bool // the last ping heard was that leader's last
	tried     bool // a try failed since
	number    int64
	probing   int64     // number of the probe under way; 0: none
	unfit     time.Time // until then others go first
	due       int64     // number of the timer that counts
	mode      cluster.Mode
	relayed   int64
	resigning bool
	children  []*PID
}

// leaderState is what survives a restart of leader.
type leaderState struct {
	term    cluster.Term
	fenced  bool // the lease may have run out
	leaving bool // the pod stops: no more campaigns
	told    bool
	limits  termLimits
}

// Messages of the leader to itself.
type (
	campaignDue struct{ number int64 }
	pingDue     struct{ number int64 }
	pinged      struct{}
	quit        struct{}
)

func spawnLeader(rt *runtime, ports *Ports, pod int64, h *leaderState) func() receiver {
	return func() receiver {
		a := &leader{
			rt: rt, pod: pod, carryover: h, mode: cluster.ModeNone, elector: ports.Elector, lease: ports.Store, timers: ports.Store,
			house: housePorts{ports.Store, ports.Store, ports.Store},
		}
		a.supervision = supervision{rt: rt, self: rt.addresses.leader}
		return a
	}
}

// Receive implements protoactor's Actor.
func (a *leader) Receive(ctx actorContext) {
	switch msg := ctx.Message().(type) {
	case *started:
		a.onStarted()
	case *campaignDue:
		a.onCampaignDue(msg)
	case *answered[cluster.Term]:
		a.onElected(ctx, msg)
	case *pingDue:
		a.onPingDue(ctx, msg)
	case *answered[pinged]:
		a.onPinged(ctx, msg)
	case *answered[quit]:
		a.onQuit(msg)
	case *answered[probed]:
		a.onProbed(msg)
	case *messages.LeaderHeard:
		a.onLeaderHeard(ctx, msg)
	case *messages.FeedChanged:
		a.onFeedChanged(msg)
	case *messages.AskTerm:
		a.onAskTerm()
	case *messages.TimerSet:
		if a.leading() {
			a.rt.send(a.rt.addresses.timekeeper, msg)
		}
	case *messages.TermDeposed:
		a.onTermDeposed(ctx, msg)
	case *messages.LeaseFenced:
		a.carryover.fenced = true
		if a.others() { // the same cause may keep it from leading
			a.endTerm(ctx)
		}
	case *messages.LeaseRestored:
		if a.carryover.fenced {
			a.carryover.fenced = false
			a.campaign()
		}
	case *messages.Resign:
		a.onResign(ctx)
	case *terminated:
	case *restartDue:
		a.onRestartDue(msg)
	case *listChildren:
		msg.answer(ctx)
	case *restarting:
		a.off = true
	case *stopping:
		a.off = true
		a.rt.guarded("leader", a.leave)
	case *stopped:
	default:
		a.rt.unknown("leader", msg)
	}
}

func (a *leader) leading() bool { return a.carryover.term != nil && !a.resigning }

// onStarted gives back the term of the last incarnation: its children are
// gone. Others go first then, as what it failed on may be its own.
func (a *leader) onStarted() {
	if a.carryover.term != nil {
		a.unfit = a.rt.now().Add(a.rt.config.LeaderSilence)
		a.tellEnded()
		a.quit()
		return
	}
	a.campaign()
	a.tellResigned()
}

// campaign waits until it is time to try.
func (a *leader) campaign() {
	if a.carryover.leaving || a.carryover.term != nil || a.number != 0 {
		return
	}
	c := a.rt.config
	wait := cluster.CampaignDelay(
		cluster.CampaignTimes{Silence: c.LeaderSilence, Retry: c.LeaderTry},
		cluster.Contender{
			Heard: a.heard, Silence: a.rt.now().Sub(a.heardAt), Resigned: a.resigned, Tried: a.tried,
			Jitter: 2*a.rt.chance() - 1,
		})
	a.due = a.rt.numbers.next()
	a.rt.after(wait, a.self, &campaignDue{number: a.due})
}

func (a *leader) onCampaignDue(m *campaignDue) {
	if m.number != a.due || a.carryover.leaving || a.carryover.term != nil || a.number != 0 {
		return
	}
	if a.carryover.fenced { // it begins again when the lease holds
		return
	}
	if quiet := a.rt.now().Sub(a.heardAt); a.heard && !a.resigned && quiet < a.rt.config.LeaderSilence {
		a.campaign()
		return
	}
	if a.cutOff() {
		return
	}
	a.number = askApart(a.rt, a.self, "campaign", storeTimeout, func(ctx context.Context) (cluster.Term, error) {
		return a.elector.Campaign(ctx)
	})
}

func (a *leader) onElected(ctx actorContext, m *answered[cluster.Term]) {
	if m.number != a.number {
		if m.value != nil { // it was asked for by a former incarnation
			a.giveBack(m.value)
		}
		return
	}
	a.number = 0
	switch {
	case m.err != nil:
		if !errors.Is(m.err, cluster.ErrNotElected) {
			a.rt.storeFailed("campaign", m.err)
		}
		a.tried = true
		a.campaign()
		a.tellResigned()
		return
	case a.carryover.leaving:
		a.carryover.term = m.value
		a.quit()
		return
	}
	a.carryover.term = m.value
	a.relayed, a.tried = 0, false
	epoch := m.value.Epoch()
	a.rt.recorder.set(MetricLeading, 1)
	a.rt.status.with(func(f *podFacts) { f.epoch = epoch })
	a.rt.log.LogAttrs(context.Background(), slog.LevelInfo, "elected leader",
		slog.Int64("pod_id", a.pod), slog.Int64("epoch", epoch))
	a.rt.send(a.rt.addresses.feed, &messages.TermBegan{Epoch: epoch})
	err := errors.Join(
		a.spawn(ctx, "timekeeper", newTimekeeper(a.rt, a.timers, epoch, &a.carryover.limits)), a.spawn(ctx, "housekeeper", newHousekeeper(a.rt, a.house, epoch, &a.carryover.limits)))
	if err != nil { // the actors of the last term have not ended yet: campaign again
		a.endTerm(ctx)
		return
	}
	a.ping()
}

func (a *leader) spawn(ctx actorContext, name string, produce func() receiver) error {
	pid, err := ctx.SpawnNamed(a.rt.props(name, produce), name)
	if err == nil {
		a.children = append(a.children, pid)
	}
	return err
}

func (a *leader) ping() {
	term := a.carryover.term
	ping := cluster.Ping{
		Epoch: term.Epoch(), Mode: a.mode, Pods: int(a.rt.recorder.value(MetricPods)), Relayed: a.relayed,
	}
	a.number = askApart(a.rt, a.self, "ping", storeTimeout, func(ctx context.Context) (pinged, error) {
		return pinged{}, term.Ping(ctx, ping)
	})
}

func (a *leader) onPinged(ctx actorContext, m *answered[pinged]) {
	if m.number != a.number {
		return
	}
	a.number = 0
	if m.err != nil {
		a.rt.storeFailed("ping", m.err)
		a.endTerm(ctx)
		return
	}
	if a.leading() {
		a.due = a.rt.numbers.next()
		interval := cluster.PingInterval(a.rt.config.LeaderPing, a.mode, int(a.rt.recorder.value(MetricPods)))
		a.rt.after(interval, a.self, &pingDue{number: a.due})
	}
}

func (a *leader) onPingDue(ctx actorContext, m *pingDue) {
	if m.number == a.due && a.leading() && a.number == 0 && !a.yields(ctx) {
		a.ping()
	}
}

// onAskTerm answers a feed that may have missed the beginning or the end of a
// term.
func (a *leader) onAskTerm() {
	if a.leading() {
		a.rt.send(a.rt.addresses.feed, &messages.TermBegan{Epoch: a.carryover.term.Epoch()})
		return
	}
	a.rt.send(a.rt.addresses.feed, &messages.TermEnded{})
}

// onFeedChanged announces a new mode at once.
func (a *leader) onFeedChanged(m *messages.FeedChanged) {
	mode := cluster.Mode(m.GetMode())
	changed := mode != a.mode
	a.mode, a.relayed = mode, m.GetRelayed()
	if changed && a.leading() && a.number == 0 {
		a.ping()
	}
}

func (a *leader) onLeaderHeard(ctx actorContext, m *messages.LeaderHeard) {
	if a.leading() {
		if m.GetEpoch() > a.carryover.term.Epoch() {
			a.endTerm(ctx)
		}
		return
	}
	a.heard, a.heardAt, a.resigned = true, a.rt.now(), m.GetResigned()
	a.rt.status.with(func(f *podFacts) { f.led = a.heardAt })
	a.tried = false
	a.campaign()
}

func (a *leader) onTermDeposed(ctx actorContext, m *messages.TermDeposed) {
	if a.leading() && m.GetEpoch() == a.carryover.term.Epoch() {
		a.endTerm(ctx)
	}
}

// endTerm stops leading, then gives the term back.
func (a *leader) endTerm(ctx actorContext) {
	if !a.leading() {
		return
	}
	for _, pid := range a.children {
		ctx.Stop(pid)
	}
	a.children = nil
	a.tellEnded()
	a.quit()
}

func (a *leader) tellEnded() {
	a.rt.vitals.with(func(v *vitals.Vitals) {
		v.Forget(leaderCalls()...)
		v.Rejected.Forget(leaderCalls()...)
	})
	a.rt.recorder.set(MetricLeading, 0)
	a.rt.status.with(func(f *podFacts) { f.epoch, f.led = 0, a.rt.now() })
	a.rt.send(a.rt.addresses.feed, &messages.TermEnded{Epoch: a.carryover.term.Epoch()})
}

func (a *leader) quit() {
	a.resigning = true
	term := a.carryover.term
	a.number = askApart(a.rt, a.self, "resign", a.rt.config.LeaderSilence, func(ctx context.Context) (quit, error) {
		return quit{}, term.Resign(ctx)
	})
}

// giveBack resigns a term that this incarnation did not ask for.
func (a *leader) giveBack(term cluster.Term) {
	askApart(a.rt, a.self, "resign", a.rt.config.LeaderSilence, func(ctx context.Context) (quit, error) {
		return quit{}, term.Resign(ctx)
	})
}

// leave gives the term back without waiting for it. A pod that ends at once would
// otherwise keep its session, and the others waiting.
func (a *leader) leave() {
	if a.leading() {
		a.giveBack(a.carryover.term)
	}
}

func (a *leader) onQuit(m *answered[quit]) {
	if m.number != a.number {
		return
	}
	if m.err != nil {
		a.rt.storeFailed("resign", m.err)
	}
	a.number, a.resigning, a.carryover.term = 0, false, nil
	a.tried = true // let others go first
	a.campaign()
	a.tellResigned()
}

func (a *leader) onResign(ctx actorContext) {
	a.carryover.leaving = true
	a.endTerm(ctx)
	a.tellResigned()
}

func (a *leader) tellResigned() {
	if a.carryover.leaving && !a.carryover.told && a.carryover.term == nil && a.number == 0 {
		a.carryover.told = true
		a.rt.send(a.rt.addresses.pod, &messages.Resigned{})
	}
}
