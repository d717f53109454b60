package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// Pod is a running pod as the embedder's goroutines see it. It is safe for
// concurrent use.
type Pod struct{ rt *runtime }

// PID is the address of the pod. It accepts TriggerRun, SendSignal, CancelRun and
// AwaitRun, and answers the sender.
func (p *Pod) PID() *PID { return p.rt.addresses.pod }

// System is the actor system that the pod lives in.
func (p *Pod) System() *System { return p.rt.system }

// Done is closed when the pod has ended.
func (p *Pod) Done() <-chan struct{} { return p.rt.status.done }

// Err is why the pod has ended, or nil: it lives, or was stopped.
func (p *Pod) Err() error { return p.rt.status.get().err }

// NewRunID makes the id of a run, by the database's clock.
func (p *Pod) NewRunID() workflow.RunID { return p.rt.newRunID() }

// Check returns why a trigger cannot be stored, or nil.
func (p *Pod) Check(trigger persistence.Trigger) *Refusal {
	return CheckTrigger(&trigger, p.rt.config.PayloadLimit)
}

// Trigger stores triggers, all or none, and returns once that is durable. It
// fills in their run ids. While too many wait it waits for room. A refusal
// means that nothing was stored; an error that this is unknown, or that ctx
// ended first.
func (p *Pod) Trigger(ctx context.Context, triggers []persistence.Trigger) ([]persistence.TriggerAnswer, *Refusal, error) {
	if n := len(triggers); n > persistence.TriggerBatchMax {
		return nil, refuse(LimitReached, "inputs", fmt.Sprintf(
			"%d triggers in one call; at most %d: make several calls", n, persistence.TriggerBatchMax)), nil
	}
	bytes := 0
	for i := range triggers {
		t := &triggers[i]
		if refused := CheckTrigger(t, p.rt.config.PayloadLimit); refused != nil {
			return nil, refused, nil
		}
		t.Run = p.rt.newRunID()
		bytes += triggerBytes(t)
	}
	if limit := max(batchBytesMax, p.rt.config.PayloadLimit); len(triggers) > 1 && bytes > limit {
		return nil, refuse(LimitReached, "inputs", fmt.Sprintf(
			"%d bytes in one call; at most %d: make several calls", bytes, limit)), nil
	}
	release, err := p.rt.status.admit(ctx, len(triggers))
	if err != nil {
		return nil, nil, err
	}
	defer release()
	call := &triggerCall{ask: &question{triggers: triggers, bytes: bytes}}
	a, err := converse(ctx, p, p.rt.addresses.intake, call, func(answer func(triggerAnswers), taken, gone func() bool) {
		call.ask.answer, call.ask.taken, call.ask.gone = answer, taken, gone
	})
	if err != nil && call.ask.held.Load() {
		err = fmt.Errorf("%w: %w", err, heldBy(triggers))
	}
	err = triedAgain(err, &call.ask.last)
	if err == nil && a.err != nil {
		return nil, nil, a.err
	}
	return a.answers, a.refused, err
}

// The locks that a trigger may wait for.
var (
	errKeyHeld    = errors.New("its key is held by a transaction that has not ended: commit or roll back the transaction that triggered with the same key")
	errTenantHeld = errors.New("a transaction that has not ended locks its tenant's counter: troupe doctor names it (check locks)")
)

// heldBy says which lock kept triggers waiting.
func heldBy(triggers []persistence.Trigger) error {
	if slices.ContainsFunc(triggers, func(t persistence.Trigger) bool { return t.Key != "" }) {
		return errKeyHeld
	}
	return errTenantHeld
}

// converse sends a question to an actor and waits for the answer. A restarted actor loses
// its mailbox, so the question is repeated until it is taken in. The context is the
// embedder's code, which no actor may call: gone reports that the caller has left.
func converse[A any](
	ctx context.Context, p *Pod, to *PID, call any, connect func(answer func(A), taken, gone func() bool),
) (A, error) {
	var none A
	answers := make(chan A, 1)
	var taken, left atomic.Bool
	defer left.Store(true)
	connect(func(a A) { answers <- a }, func() bool { return taken.Swap(true) }, left.Load)
	again := make(chan struct{}, 1)
	for {
		p.rt.arrive(to, call)
		stop := p.rt.clock.After(resendAfter, func() { again <- struct{}{} })
		wait := again
		for wait != nil {
			select {
			case a := <-answers:
				stop()
				return a, nil
			case <-ctx.Done():
				stop()
				return none, context.Cause(ctx)
			case <-p.Done():
				stop()
				return none, ErrEnded
			case <-again:
				if wait = nil; taken.Load() {
					wait = make(chan struct{}) // it was taken in: only the answer is left to wait for
				}
			}
		}
	}
}

// triedAgain adds the error of the last call to the error of a caller that has left.
func triedAgain(err error, last *atomic.Value) error {
	if failed, is := last.Load().(struct{ error }); err != nil && is && failed.error != nil {
		return fmt.Errorf("%w: it was tried again and again: %w", err, failed.error)
	}
	return err
}

// Cancel asks a run to stop and returns once that is durable.
func (p *Pod) Cancel(ctx context.Context, cancel persistence.Cancel) (persistence.Canceled, error) {
	type answer struct {
		canceled persistence.Canceled
		err      error
	}
	call := &cancelCall{ask: &cancelQuestion{cancel: cancel}}
	a, err := converse(ctx, p, p.rt.addresses.journal, call, func(reply func(answer), taken, gone func() bool) {
		call.ask.answer = func(c persistence.Canceled, err error) { reply(answer{c, err}) }
		call.ask.taken, call.ask.gone = taken, gone
	})
	if err = triedAgain(err, &call.ask.last); err != nil {
		return persistence.Canceled{}, err
	}
	return a.canceled, a.err
}

// Submitted tells the pod that a transaction which stored triggers has been
// committed, or may be soon.
func (p *Pod) Submitted() {
	p.rt.status.with(func(f *podFacts) { f.submittedAt = p.rt.now() })
	p.rt.arrive(p.rt.addresses.feed, &messages.TablesChanged{Submitted: true})
}

// Streamed reports whether wakes reach the pods by a stream of the database's
// changes, so that writers need not notify.
func (p *Pod) Streamed() bool {
	mode := p.rt.status.get().mode
	return mode == cluster.ModeStream || mode == cluster.ModeRelay
}

// Watch returns a channel that holds a token after every hint that a run may
// have ended. stop releases it.
func (p *Pod) Watch(run workflow.RunID) (hints <-chan struct{}, stop func()) {
	return p.rt.status.watch(run)
}

// Remind hints at a run again after a while, for watchers that could not read it.
func (p *Pod) Remind(run workflow.RunID) {
	p.rt.clock.After(resendAfter, func() { p.rt.status.hint(run) })
}

// ReadGauges returns the gauges of the whole database (DatabaseGauge) if this pod leads,
// and nothing if it does not: so of all pods that are asked one answers. It sends a
// statement to the database if there was none for GaugesFor; a pod that is not asked
// sends none. The list is not to be changed.
func (p *Pod) ReadGauges(ctx context.Context) ([]Measure, error) {
	if p.rt.status.get().epoch == 0 {
		return nil, nil
	}
	list, fresh, err := p.rt.gauges.read(ctx, p.rt.now)
	if fresh && err != nil {
		p.rt.recorder.add(MetricStoreErrors, 1, "backlog") //nolint:contextcheck // the recorder logs what is no call's
		p.rt.log.LogAttrs(context.WithoutCancel(ctx), slog.LevelWarn, "the gauges of the database could not be read", slog.Any("error", err))
	}
	return list, err
}

// Stop ends the pod in good order; see stopStage for the order. When ctx ends
// first, or has ended, the pod ends at once, and Stop returns the cause.
func (p *Pod) Stop(ctx context.Context) error {
	late := ctx.Err() != nil
	defer p.rt.executor.Close()
	if p.over() {
		return nil
	}
	p.rt.send(p.rt.addresses.pod, &stopPod{})
	if !late {
		select {
		case <-p.Done():
		case <-ctx.Done():
		}
	}
	if !late && p.over() {
		return nil
	}
	p.Kill()
	return fmt.Errorf("stop pod: %w", context.Cause(ctx))
}

// over reports whether the pod has ended.
func (p *Pod) over() bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// Kill ends the pod at once. Its tasks are handed back if the database answers within a
// few seconds, and taken over when its lease ends otherwise. Actors that do not answer are
// not waited for.
func (p *Pod) Kill() {
	p.rt.arrive(p.rt.addresses.pod, &killPod{})
	stop := p.rt.clock.After(p.rt.config.EndGrace+killMax, func() { p.rt.status.end(errUnresponsiveActors) })
	<-p.Done()
	stop()
	p.rt.executor.Close()
}

// killMax bounds the end of a pod that is killed, besides EndGrace: it is more
// than the stages of its stop may take.
const killMax = 6 * stopStageLimit

var errUnresponsiveActors = errors.New("the pod's actors do not answer")

// Abandon tells only the callers that wait for the pod that it has ended: for simulations
// of a crash.
func (p *Pod) Abandon(err error) { p.rt.status.end(err) }

// BeginStop begins a stop without waiting for it.
func (p *Pod) BeginStop() { p.rt.arrive(p.rt.addresses.pod, &stopPod{}) }

// Stats is what a pod counts about itself, since its start where it is a sum.
type Stats struct {
	Ready     bool          // the pod claims tasks and takes triggers
	NoWrites  string        // why a write was rejected within the last seconds; "": none was
	Degraded  string        // which part works worse than it could; "": none
	Parked    string        // leader: which work no living pod can execute, with the remedy; "": none
	Pod       int64         // number of this start
	Lease     string        // live, late, lost or dead
	Unrenewed string        // why the last renewal of the lease failed; "": it did not
	Leading   bool          // this pod is the leader
	Mode      string        // how wakes arrive: stream (read here), relay (from the leader) or none (notifications and sweeps)
	Pods      int           // living pods, as last heard
	Stalled   time.Duration // for how long an actor has not come back from Config.Metrics, ten seconds and more; 0: all do
	Running   int           // slots in use
	Free      int           // slots not in use
	Stuck     int           // functions still running after their attempt was reported
	Pending   int           // triggers that wait to be stored
	Journal   int           // outcomes that wait to be recorded
	Triggers  int64         // answered, refusals included
	Attempts  int64         // ended, however
	Retries   int64         // attempts that will be tried again
	Losses    int64         // attempts lost on this pod
	Inline    int64         // children granted with their parent's completion
	First     int64         // first tasks granted with the storing of their runs
	Restarts  int64         // of actors
	Errors    int64         // of store calls, which are made again
	Stale     int64         // outcomes refused because the task had moved on
	TimersRun int64         // timers fired by this pod
}

// Stats returns a snapshot. Its numbers are those of the metrics.
func (p *Pod) Stats() Stats {
	b, m, now := p.rt.status.get(), p.rt.recorder, p.rt.now()
	s := Stats{
		Ready: !b.stopping && !b.ended && (b.lease == lifecycle.LeaseLive || b.lease == lifecycle.LeaseLate),
		Pod:   b.number, Lease: b.lease.String(), Leading: b.epoch != 0, Mode: modeName(b.mode), Degraded: b.degraded,
		Unrenewed: b.unrenewed,
	}
	if s.Leading {
		s.Parked = b.parked
	}
	if !b.noWritesAt.IsZero() && now.Sub(b.noWritesAt) < fullFor {
		s.NoWrites, s.Ready = b.noWrites, false
	}
	if wakes := p.wakesTrouble(&b, now); wakes != "" {
		s.Degraded = wakes
	}
	if b.parted() {
		s.Ready = false
		s.Degraded = "the lease is renewed, and the database says through the pool that the pod is dead: the connection that renews it" +
			" (to Config.DirectURL, if that is set) and the pool reach different databases; have both name the same one"
	}
	p.rt.vitals.with(func(v *vitals.Vitals) { s.judge(v, now, p.rt.config) })
	if actor, stuck := p.rt.watchdog.Longest(now); stuck >= vitals.StuckAfter {
		s.Stalled, s.Ready = stuck, false
		s.Degraded = fmt.Sprintf("Config.Metrics has not returned to an actor (%s) for %v: the actor waits for it; "+
			"let Metrics never block", actor, stuck.Truncate(time.Second))
	}
	count := func(metric Metric) int64 { return int64(m.value(metric)) }
	s.Pods, s.Running, s.Free = int(count(MetricPods)), int(count(MetricRunning)), int(count(MetricFree))
	s.Stuck, s.Pending, s.Journal = int(count(MetricStuck)), int(count(MetricTriggerPending)), int(count(MetricJournalDepth))
	s.Triggers, s.Attempts, s.Retries, s.Losses = count(MetricTriggers), count(MetricAttempts), count(MetricRetries), count(MetricLosses)
	s.Inline, s.Restarts, s.Errors = count(MetricInlineGrants), count(MetricRestarts), count(MetricStoreErrors)
	s.First = count(MetricFirstGrants)
	s.Stale, s.TimersRun = count(MetricStale), count(MetricTimersFired)
	return s
}

// wakesTrouble says why wakes come late, or timers do not fire; "": nothing of the kind.
func (p *Pod) wakesTrouble(b *podFacts, now time.Time) string {
	patience := leaderlessFor * p.rt.config.LeaderSilence
	if unheard := now.Sub(b.unheard); !b.unheard.IsZero() && unheard > patience {
		return fmt.Sprintf("there has been no connection to listen on for %v: notifications are found by sweeps, "+
			"and it is unknown whether a leader fires timers; the log says why (listen)", unheard.Truncate(time.Second))
	}
	quiet := b.leaderless(now)
	switch {
	case quiet <= patience || !b.unheard.IsZero():
		return ""
	case p.rt.config.ClientOnly:
		return fmt.Sprintf("no leader was heard of for %v: no pod seems to live that executes tasks; start one without ClientOnly",
			quiet.Truncate(time.Second))
	}
	return fmt.Sprintf("no leader was heard of for %v: timers do not fire and dead pods are not taken over, unless a leader works unheard; "+
		"the log says why elections fail (campaign), and troupe doctor names the holder of the leader's lock and the remedy", quiet.Truncate(time.Second))
}

// judge adds what the database's answers say.
func (s *Stats) judge(v *vitals.Vitals, now time.Time, c Config) {
	if trouble := v.Tx.Trouble(now); trouble != "" {
		s.Degraded = trouble
	}
	if rejected, stopped := v.Rejected.LongestRejected(now); rejected != "" {
		s.Degraded, s.Ready = rejected, s.Ready && !stopped
	}
	if oldest := v.Oldest(now); oldest >= leadAwayMax {
		s.Degraded = fmt.Sprintf("the database has not answered a call for %v, though it may answer others; it is given up and repeated after 30 s at most:"+
			" look for locks and commits that wait for a standby (troupe doctor names them), and for connections that are dead"+
			" on the way, in a proxy or a load balancer", oldest.Truncate(time.Second))
	}
	if silence := poolSilence(v, now); silence >= min(leadAwayMax, c.silenceMax()) {
		s.Ready = s.Ready && silence < c.silenceMax()
		s.Degraded = fmt.Sprintf("for %v the database has answered nothing that the pod asked through its pool, or nothing large: the pod claims nothing, "+
			"stores no trigger and does not lead while other pods live; check the network between them, a proxy first", silence.Truncate(time.Second))
	}
}

// Heard reports whether the database has answered a call of the pod's through
// its pool within the given time.
func (p *Pod) Heard(within time.Duration) bool { return p.rt.now().Sub(p.rt.lastAnswer()) < within }

// leaderlessFor times the silence that starts an election is when a pod reports that there
// is no leader.
const leaderlessFor = 4

func modeName(mode cluster.Mode) string {
	if mode == 0 {
		return "none"
	}
	return mode.String()
}
