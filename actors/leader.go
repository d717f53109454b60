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
	ctx       actorContext
	call      call // of the term
	prober    call
	unfit     time.Time // until then others go first
	due       timer     // of the next campaign, or the next ping
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

// elected is the end of a campaign. A term that a former incarnation has won is given back.
type elected struct {
	number int64
	term   cluster.Term
	err    error
}

func spawnLeader(rt *runtime, ports *Ports, pod int64, h *leaderState) func() receiver {
	return func() receiver {
		return &leader{
			supervision: supervision{base: base{rt, rt.addresses.leader}}, pod: pod, carryover: h, mode: cluster.ModeNone,
			elector: ports.Elector, lease: ports.Store, timers: ports.Store, house: housePorts{ports.Store, ports.Store, ports.Store},
		}
	}
}

// Receive implements protoactor's Actor.
func (a *leader) Receive(ctx actorContext) {
	a.ctx = ctx
	switch msg := ctx.Message().(type) {
	case *started:
		a.onStarted()
	case *happened:
		a.handle(msg)
	case *elected:
		a.onElected(msg)
	case *messages.LeaderHeard:
		a.onLeaderHeard(msg)
	case *messages.FeedChanged:
		a.onFeedChanged(msg)
	case *messages.AskTerm:
		a.onAskTerm()
	case *messages.TimerSet:
		if a.leading() {
			a.rt.send(a.rt.addresses.timekeeper, msg)
		}
	case *messages.TermDeposed:
		a.onTermDeposed(msg)
	case *messages.LeaseFenced:
		a.carryover.fenced = true
		if a.others() { // the same cause may keep it from leading
			a.endTerm()
		}
	case *messages.LeaseRestored:
		if a.carryover.fenced {
			a.carryover.fenced = false
			a.campaign()
		}
	case *messages.Resign:
		a.onResign()
	case *terminated:
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

// others reports whether other pods that could lead live, as far as is known.
func (a *leader) others() bool { return a.rt.status.get().executing > 1 }

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
	c := a.rt.config
	if c.ClientOnly || a.carryover.leaving || a.carryover.term != nil || a.call.open() {
		return
	}
	wait := cluster.CampaignDelay(
		cluster.CampaignTimes{Silence: c.LeaderSilence, Retry: c.LeaderTry},
		cluster.Contender{
			Heard: a.heard, Silence: a.rt.now().Sub(a.heardAt), Resigned: a.resigned, Tried: a.tried,
			Jitter: 2*a.rt.chance() - 1,
		})
	a.due.set(&a.base, wait, a.onCampaignDue)
}

func (a *leader) onCampaignDue() {
	// Fenced, it begins again when the lease holds.
	if a.carryover.leaving || a.carryover.term != nil || a.call.open() || a.carryover.fenced {
		return
	}
	if quiet := a.rt.now().Sub(a.heardAt); a.heard && !a.resigned && quiet < a.rt.config.LeaderSilence {
		a.campaign()
		return
	}
	if a.cutOff() {
		return
	}
	number := a.rt.numbers.next()
	a.call.number = number
	a.rt.executor.Call(a.self, "campaign", storeTimeout, func(ctx context.Context) any {
		term, err := contained(func() (cluster.Term, error) { return a.elector.Campaign(ctx) })
		return &elected{number, term, err}
	})
}

func (a *leader) onElected(m *elected) {
	if m.number != a.call.number {
		if m.term != nil {
			a.giveBack(m.term)
		}
		return
	}
	a.call.number = 0
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
		a.carryover.term = m.term
		a.quit()
		return
	}
	a.carryover.term = m.term
	a.relayed, a.tried = 0, false
	epoch := m.term.Epoch()
	a.rt.recorder.set(MetricLeading, 1)
	a.rt.status.with(func(f *podFacts) { f.epoch = epoch })
	a.rt.log.LogAttrs(context.Background(), slog.LevelInfo, "elected leader",
		slog.Int64("pod_id", a.pod), slog.Int64("epoch", epoch))
	a.rt.send(a.rt.addresses.feed, &messages.TermBegan{Epoch: epoch})
	err := errors.Join(
		a.spawn("timekeeper", newTimekeeper(a.rt, a.timers, epoch, &a.carryover.limits)),
		a.spawn("housekeeper", newHousekeeper(a.rt, a.house, epoch, &a.carryover.limits)))
	if err != nil { // the actors of the last term have not ended yet: campaign again
		a.endTerm()
		return
	}
	a.ping()
}

func (a *leader) spawn(name string, produce func() receiver) error {
	pid, err := a.ctx.SpawnNamed(a.rt.props(name, produce), name)
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
	askApart(&a.base, &a.call, "ping", storeTimeout, func(ctx context.Context) (none, error) {
		return none{}, term.Ping(ctx, ping)
	}, a.onPinged)
}

func (a *leader) onPinged(_ none, err error) {
	if err != nil {
		a.rt.storeFailed("ping", err)
		a.endTerm()
		return
	}
	if a.leading() {
		interval := cluster.PingInterval(a.rt.config.LeaderPing, a.mode, int(a.rt.recorder.value(MetricPods)))
		a.due.set(&a.base, interval, func() {
			if a.leading() && !a.call.open() && !a.yields() {
				a.ping()
			}
		})
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
	if changed && a.leading() && !a.call.open() {
		a.ping()
	}
}

func (a *leader) onLeaderHeard(m *messages.LeaderHeard) {
	if a.leading() {
		if m.GetEpoch() > a.carryover.term.Epoch() {
			a.endTerm()
		}
		return
	}
	a.heard, a.heardAt, a.resigned = true, a.rt.now(), m.GetResigned()
	a.rt.status.with(func(f *podFacts) { f.led = a.heardAt })
	a.tried = false
	a.campaign()
}

func (a *leader) onTermDeposed(m *messages.TermDeposed) {
	if a.leading() && m.GetEpoch() == a.carryover.term.Epoch() {
		a.endTerm()
	}
}

// endTerm stops leading, then gives the term back.
func (a *leader) endTerm() {
	if !a.leading() {
		return
	}
	for _, pid := range a.children {
		a.ctx.Stop(pid)
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
	a.resign(&a.call, a.carryover.term, a.onQuit)
}

func (a *leader) resign(c *call, term cluster.Term, then func(none, error)) {
	askApart(&a.base, c, "resign", a.rt.config.LeaderSilence, func(ctx context.Context) (none, error) {
		return none{}, term.Resign(ctx)
	}, then)
}

// giveBack resigns a term that this incarnation did not ask for.
func (a *leader) giveBack(term cluster.Term) {
	a.resign(&call{}, term, func(none, error) {})
}

// leave gives the term back without waiting for it. A pod that ends at once would
// otherwise keep its session, and the others waiting.
func (a *leader) leave() {
	if a.leading() {
		a.giveBack(a.carryover.term)
	}
}

func (a *leader) onQuit(_ none, err error) {
	if err != nil {
		a.rt.storeFailed("resign", err)
	}
	a.resigning, a.carryover.term = false, nil
	a.tried = true // let others go first
	a.campaign()
	a.tellResigned()
}

func (a *leader) onResign() {
	a.carryover.leaving = true
	a.endTerm()
	a.tellResigned()
}

func (a *leader) tellResigned() {
	if a.carryover.leaving && !a.carryover.told && a.carryover.term == nil && !a.call.open() {
		a.carryover.told = true
		a.rt.send(a.rt.addresses.pod, &messages.Resigned{})
	}
}
