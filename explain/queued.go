package explain

import (
	"fmt"
	"slices"
	"time"
)

// queued explains a step that is ready: by what keeps every pod from it, then by
// what keeps those that could execute it.
func (e *explainer) queued(t *Task) Reason {
	living := e.living()
	registering := slices.DeleteFunc(slices.Clone(living), func(p *Pod) bool { return !slices.Contains(p.Handlers, t.Handler) })
	serving := slices.DeleteFunc(slices.Clone(registering), func(p *Pod) bool { return !slices.Contains(p.Queues, t.Queue) })
	r := Reason{Since: t.QueuedAt}
	switch {
	case len(e.s.Locks) > 0:
		return e.locked()
	case !t.Ready && !t.Parked && e.length(t.Queue) < LineMax:
		r := nothing("it is ready and stands in no queue")
		r.Remedy = "run troupe doctor --deep: if its row was removed, a statement in docs/operations.md puts it back; canceling the run ends it"
		return r
	case len(living) == 0:
		r = e.noPod()
	case len(registering) == 0:
		r.Cause, r.Text = CauseUnregistered, "no live pod registers it"+e.lastSeen(t.Handler)
		r.Remedy = "start a pod of a version that has this step as it was when the run began, or cancel the run"
	case len(serving) == 0:
		r.Cause, r.Text = CauseUnserved, fmt.Sprintf("no pod that registers it serves the queue %q", t.Queue)
		r.Remedy = "add the queue to Config.QueueSlots of some pod"
	case t.Parked:
		r.Cause, r.Text = CauseReturning, "was parked while no live pod registered it; "+serving[0].label()+" does now, so it is put back"
		r.Pod = serving[0].label()
	case e.s.TenantLimit > 0 && e.s.TenantBusy >= e.s.TenantLimit:
		r.Cause = CauseTenantLimit
		r.Text = fmt.Sprintf("its tenant runs %d tasks and may run %d", e.s.TenantBusy, e.s.TenantLimit)
		r.Remedy = "wait for them, or raise Config.TenantLimit"
	default:
		e.inLine(&r, t, serving)
	}
	r.Since = t.QueuedAt
	if !t.Expires.IsZero() {
		r.Text += ", fails in " + Span(max(t.Expires.Sub(e.s.Now), 0)) + " unless it starts"
	}
	return r
}

// inLine explains a step that some pod will claim when its turn comes.
func (e *explainer) inLine(r *Reason, t *Task, serving []*Pod) {
	slots, held, stuck, clean := 0, 0, 0, 0
	for _, p := range serving {
		slots += p.Slots
		held += min(p.Held+p.Stuck, p.Slots)
		stuck += p.Stuck
		if p.Suspects == 0 {
			clean++
		}
	}
	switch {
	case t.Suspect && clean == 0:
		r.Cause = CauseSuspect
		r.Text = fmt.Sprintf("lost %s with its pod; such tasks run one at a time on a pod, and each of %s runs one", times(int(t.Lost)), count(len(serving), "pod"))
		r.Remedy = "look why pods died under it: a step that ends its process is failed when it was lost too often"
	case held >= slots && stuck > 0:
		r.Cause = CauseDeaf
		r.Text = fmt.Sprintf("%s, %d of them by functions that ignore their context", e.place(t, slots), stuck)
		r.Remedy = "end such functions when their context ends; restarting the pod frees the slots"
	case held >= slots:
		r.Cause, r.Text = CauseInLine, e.place(t, slots)
		r.Remedy = "more pods or slots would take it sooner"
	case t.Place > slots-held || !t.Ready:
		r.Cause, r.Text = CauseInLine, fmt.Sprintf("%s, %d of %s free", e.turn(t), slots-held, count(slots, "slot"))
	default:
		r.Cause, r.Text = CauseReady, "ready, the next claim takes it"
		if waits := e.s.Now.Sub(t.QueuedAt); !t.QueuedAt.IsZero() && waits > slowClaim {
			r.Text = fmt.Sprintf("ready for %s although %d of %s are free", Span(waits), slots-held, count(slots, "slot"))
			if e.passedOver(r, r.Text, "ready_queue", "claims") {
				return
			}
			r.Remedy = "look at \"degraded\" in /readyz of the pods: wakes may not reach them, and then they look every second to every half minute"
			if e.s.TenantLimitUnknown && e.s.TenantBusy > 0 {
				r.Remedy += "; or its tenant is at TenantLimit: set TROUPE_TENANT_LIMIT for this command"
			}
		}
	}
}

// slowClaim is how long a task may be ready beside free slots before an operator
// should look.
const slowClaim = 5 * time.Second

// turn says where a task stands.
func (e *explainer) turn(t *Task) string {
	if !t.Ready {
		return fmt.Sprintf("behind more than %d others in queue %s", LineMax, t.Queue)
	}
	return fmt.Sprintf("%s in tenant line, %d ahead", ordinal(t.Nth), t.Place-1)
}

func (e *explainer) place(t *Task, slots int) string {
	return fmt.Sprintf("%s; all %s busy", e.turn(t), count(slots, "slot"))
}

func (e *explainer) length(queue string) int {
	for i := range e.s.Queues {
		if e.s.Queues[i].Name == queue {
			return e.s.Queues[i].Length
		}
	}
	return 0
}

func (e *explainer) lastSeen(handler int32) string {
	for _, h := range e.s.Handlers {
		if h.Number == handler && !h.LastSeen.IsZero() {
			return ", last seen " + Span(max(e.s.Now.Sub(h.LastSeen), 0)) + " ago"
		}
	}
	return ""
}

// takeoverAfter is how long after the end of a lease its tasks may wait for their
// takeover before an operator should look.
const takeoverAfter = 3 * time.Second

// running explains a step that a pod holds.
func (e *explainer) running(t *Task) Reason {
	r := Reason{Cause: CauseRunning, Since: t.StartedAt}
	since := Span(max(e.s.Now.Sub(t.StartedAt), 0))
	at := slices.IndexFunc(e.s.Pods, func(p Pod) bool { return p.ID == t.Pod })
	if at < 0 {
		r = nothing(fmt.Sprintf("it runs on pod %d, which is not there", t.Pod))
		r.Remedy = "the leader takes it over within seconds; if it does not, run troupe doctor --deep and do what it says"
		return r
	}
	p := &e.s.Pods[at]
	r.Pod = p.label()
	left := p.Expires.Sub(e.s.Now)
	switch {
	case p.Dead || left <= 0:
		r.Cause, r.Text = CausePodLost, "its pod "+r.Pod+" is dead"
		if !p.Dead {
			r.Text += ", its lease ended " + Span(-left) + " ago"
		}
		late := left < -takeoverAfter && len(e.living()) > 0
		if late && len(e.s.Locks) > 0 {
			return e.lockedBy(e.worst(), r.Text+"; nothing is taken over meanwhile: held by a lock of")
		}
		if late && e.passedOver(&r, r.Text, "pods", "claims", "leader_epoch") {
			return r
		}
		if none := e.noPod(); none.Cause == CauseLocked && len(e.living()) == 0 {
			none.Text, none.Since = r.Text+", and "+none.Text, r.Since
			return none
		}
		r.Text += "; its tasks are taken over"
		if len(e.living()) == 0 {
			r.Remedy = "no other pod is alive: start one"
			if len(e.s.Locks) > 0 { // which may be why
				locked := e.locked()
				r.Text, r.Remedy = r.Text+"; "+locked.Text, locked.Remedy+"; "+r.Remedy
			}
		} else if _, leads := e.leader(); !leads {
			r.Text += ", but " + e.noLeader(&r)
		}
	case e.s.Lease > 0 && left < e.s.Lease-2*e.s.Pulse:
		r.Cause, r.Until = CausePodLate, p.Expires
		r.Text = fmt.Sprintf("its pod %s has not renewed for %s and may be dead: its lease ends in %s", r.Pod, Span(e.s.Lease-left), Span(left))
		r.Remedy = "others take over then; nothing is to be done"
	case e.s.Canceling:
		r.Cause, r.Until = CauseStopping, e.s.Fenced
		r.Text = "its run is canceled and its function has not returned, on " + r.Pod + " for " + since
		if e.s.Fenced.After(e.s.Now) {
			r.Text += "; it is recorded as canceled in " + Span(e.s.Fenced.Sub(e.s.Now))
		}
		r.Remedy = "a function that ignores its context is deaf: have it return when the context ends"
		e.unrecorded(&r)
	default:
		r.Text = fmt.Sprintf("running on %s for %s", r.Pod, since)
		if t.Attempt > 0 || t.Lost > 0 {
			r.Text += fmt.Sprintf(", attempt %d", t.Attempt+1)
		}
		if t.Lost > 0 {
			r.Text += ", lost " + times(int(t.Lost)) + " before"
		}
		e.unrecorded(&r)
	}
	return r
}

// unrecorded adds which lock keeps the end of a step from being recorded.
func (e *explainer) unrecorded(r *Reason) {
	if len(e.s.Locks) > 0 {
		locked := e.locked()
		r.Text += "; nothing of it is recorded meanwhile, and with InTx it is not begun: " + locked.Text
		if r.Remedy != "" {
			r.Remedy += "; "
		}
		r.Remedy += locked.Remedy
	}
}

// label is how people call a pod.
func (p *Pod) label() string {
	if p.Name == "" {
		return fmt.Sprintf("pod %d", p.ID)
	}
	return fmt.Sprintf("%s (%d)", p.Name, p.ID)
}
