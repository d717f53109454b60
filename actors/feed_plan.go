package actors

import (
	"context"
	"log/slog"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/messages"
)

// replan decides how wakes reach this pod from now on.
func (a *feed) replan() {
	if a.carryover.closing {
		return
	}
	plan, before := cluster.DecideFeed(a.times(), a.view()), a.plan
	a.plan = plan
	if spares := plan.Mode == cluster.ModeSpared; spares != (before.Mode == cluster.ModeSpared) {
		a.since = a.rt.now()
		if spares && plan.Read {
			a.later(a.times().Linger, a.replan)
		}
	}
	if plan.Read && a.stopStream == nil && !a.streamNext {
		a.read()
	}
	if !plan.Read && a.stopStream != nil {
		a.dropStream()
	}
	if plan.Mode != before.Mode {
		a.rt.recorder.set(MetricMode, float64(plan.Mode))
		a.rt.status.with(func(f *podFacts) { f.mode = plan.Mode })
		a.tellLeader()
		a.logMode(before.Mode, plan.Mode)
		a.sweep()
		return
	}
	if plan.Sweep < before.Sweep || !a.sweeps.isSet() {
		a.armSweep()
	}
}

// logMode logs a change of the mode. Most follow from how much there is to do and which
// pods there are. Wakes that do not arrive any more are worth a look.
func (a *feed) logMode(before, now cluster.Mode) {
	level, from := slog.LevelDebug, "starting"
	if before != 0 {
		from = before.String()
		if now == cluster.ModeNone {
			level = slog.LevelInfo
		}
	}
	a.rt.log.LogAttrs(context.Background(), level, "feed mode changed",
		slog.String("from", from), slog.String("to", now.String()))
}

// tellLeader says what its next ping carries.
func (a *feed) tellLeader() {
	if a.carryover.leading != 0 {
		a.rt.send(a.rt.addresses.leader, &messages.FeedChanged{Mode: uint32(a.plan.Mode), Relayed: a.relayed})
	}
}

func (a *feed) view() cluster.View {
	ping, heard := a.hearing.Ping()
	now := a.rt.now()
	return cluster.View{
		Leading: a.carryover.leading != 0, Streaming: a.streaming, Counted: a.counted, Pods: a.pods, Waiting: a.waiting,
		Refused: a.unheard,
		Submits: a.rt.submits(),
		Heard:   heard && a.listening && !ping.Resigned, Silence: now.Sub(a.heardAt), Said: ping.Mode,
		Last: a.plan, For: now.Sub(a.since),
	}
}

// times are the durations of the configuration, and those that follow from
// them: a pod that has not heard for twice the silence notifies by itself.
func (a *feed) times() cluster.FeedTimes {
	c := a.rt.config
	return cluster.FeedTimes{
		Silence: c.FeedSilence, Sweep: c.Sweep, SweepSpared: min(sweepSpared*c.SweepDegraded, c.Sweep), SweepBlind: c.SweepDegraded,
		Spare: c.StreamSpare, Linger: 2 * c.FeedSilence,
	}
}

// sweepSpared is how many times longer the pods wait between two sweeps when
// they spare the stream than when they cannot have one.
const sweepSpared = 5

// count learns from a notice that there are other pods before the next renewal
// counts them. A leader that does not know of other pods is greeted, since it sends no
// notices.
func (a *feed) count(n *cluster.Notice) {
	if n.From == 0 || n.From == a.rt.status.get().number {
		return
	}
	a.pods = max(a.pods, 2)
	if n.Ping == nil {
		return
	}
	if !a.counted {
		a.pods = max(a.pods, n.Ping.Pods)
	}
	if n.Ping.Pods == 1 && !n.Ping.Resigned {
		a.outbox.Add(cluster.Wake{Kind: cluster.WakeSubmitted})
		a.send()
	}
}
