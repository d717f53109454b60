package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
)

// Explain returns one reason for each task of the situation, by step, or one for
// the run if it has no task to explain. A map has one that counts its elements; of
// these it returns those of the first 10 that neither run nor are about to; the same holds for a
// machine, and what it has started. Of a run that has failed it returns one for each
// step that failed, the first failure first.
func Explain(s Situation) []Reason {
	e := explainer{s: &s, open: map[int32][]int32{}}
	if s.State.Terminal() && !s.Unreadable {
		return e.ended()
	}
	if r, whole := e.run(); whole {
		return []Reason{r}
	}
	for i := range s.Tasks {
		for _, child := range s.Tasks[i].Children {
			e.open[child.Step] = append(e.open[child.Step], int32(i))
		}
	}
	reasons := make([]Reason, 0, len(s.Tasks))
	elements := map[int32]int{} // shown of a map
	spawned := 0                // shown of what a machine has started
	for i := range s.Tasks {
		t := &s.Tasks[i]
		r := e.task(t)
		r.Step = t.Name
		if t.Element != 0 {
			if r.Remedy == "" && (r.Cause == CauseRunning || r.Cause == CauseReady) || elements[t.Element] == elementsShown {
				continue // the reason of its map counts it
			}
			elements[t.Element]++
		}
		if t.Spawned {
			if r.Remedy == "" && (r.Cause == CauseRunning || r.Cause == CauseReady || r.Cause == CauseSleeping) || spawned == elementsShown {
				continue // the reason of its machine counts it
			}
			spawned++
		}
		reasons = append(reasons, r)
	}
	return reasons
}

// elementsShown bounds how many elements of a map, or things that a machine has started, have a reason
// each.
const elementsShown = 10

type explainer struct {
	s    *Situation
	open map[int32][]int32 // places in Tasks of the parents that have not ended, by step
}

// run explains what is not about a single step.
func (e *explainer) run() (reason Reason, whole bool) {
	s := e.s
	switch {
	case s.Unreadable:
		return e.locked(), true
	case s.Undefined:
		return Reason{
			Cause: CauseUnregistered, Text: "the definition of its workflow was removed from the database: no pod can continue the run or cancel it",
			Remedy: "start the program that has the workflow, which registers it again; one that is running does so by itself",
		}, true
	case s.Submitted:
		return e.submitted(), true
	case s.State == lifecycle.Pending:
		return e.scheduled(), true
	case len(s.Tasks) == 0:
		return nothing("no step is open and the run has not ended"), true
	}
	return Reason{}, false
}

// submitted explains a run that a transaction stored.
func (e *explainer) submitted() Reason {
	switch {
	case len(e.s.Locks) > 0:
		return e.locked()
	case len(e.older()) > 0:
		return e.heldBack()
	case len(e.living()) == 0:
		return e.noPod()
	}
	stored := "it was stored with a transaction"
	if !e.s.Parent.IsZero() {
		stored = "it was begun by a step of run " + e.s.Parent.String()
	}
	return Reason{
		Cause: CauseIntake, Text: stored + " and waits in the intake",
		Remedy: "pods take it up within seconds; if it stays, look at /readyz of the pods",
	}
}

// scheduled explains a run that has not begun.
func (e *explainer) scheduled() Reason {
	at := e.s.StartsAt
	if at.IsZero() {
		return nothing("the run has not begun and no timer will start it")
	}
	if at.After(e.s.Now) {
		return Reason{Cause: CauseScheduled, Text: "starts " + e.until(at), Until: at}
	}
	return e.late("its start", at)
}

func (e *explainer) task(t *Task) Reason {
	switch t.State { //nolint:exhaustive // the other states are explained elsewhere
	case lifecycle.Pending:
		return e.pending(t)
	case lifecycle.Queued:
		return e.queued(t)
	case lifecycle.Running:
		return e.running(t)
	case lifecycle.Backoff:
		return e.timed(t, CauseBackoff, fmt.Sprintf("tried %s, again", times(int(t.Attempt))))
	case lifecycle.Sleeping:
		return e.timed(t, CauseSleeping, "sleeps, fires")
	case lifecycle.Waiting:
		return e.waiting(t)
	}
	return nothing("it is " + t.State.String())
}

// pending explains a step by those it waits for, and these by the first that
// does something.
func (e *explainer) pending(t *Task) Reason {
	parents := e.open[t.Step]
	if len(parents) == 0 || t.Pending == 0 {
		return nothing("its parents have ended and it was not begun")
	}
	r := Reason{Cause: CauseParents}
	for _, p := range parents {
		r.On = append(r.On, e.s.Tasks[p].Name)
	}
	r.Text = "waits for " + list(r.On, parentsShown)
	root := &e.s.Tasks[parents[0]]
	for range e.s.Tasks { // a graph has no cycle; a situation might
		above := e.open[root.Step]
		if root.State != lifecycle.Pending || len(above) == 0 {
			break
		}
		root = &e.s.Tasks[above[0]]
	}
	if root.State == lifecycle.Pending {
		return r
	}
	why := e.task(root)
	r.Until, r.Remedy, r.Pod = why.Until, why.Remedy, why.Pod
	if root.Name == r.On[0] && len(r.On) == 1 {
		r.Text += ", which " + told(why)
	} else {
		r.Text += "; " + root.Name + " " + told(why)
	}
	return r
}

// parentsShown bounds how many parents a line names.
const parentsShown = 3

// told is a text as it follows the name of a step in a sentence.
func told(r Reason) string {
	switch r.Cause { //nolint:exhaustive // the others begin with a verb
	case CauseInLine:
		return "is " + r.Text
	case CauseLocked:
		if strings.HasPrefix(r.Text, "held") || strings.HasPrefix(r.Text, "ready") {
			return "is " + r.Text
		}
		return "does not go on: " + r.Text
	case CauseRunning, CauseReady:
		return "is " + r.Text
	case CauseBackoff:
		return "was " + r.Text
	case CauseUnregistered, CauseNoPod, CauseUnserved, CausePodLate, CausePodLost, CauseDeaf, CauseTenantLimit, CauseStopping, CauseSuspect, CauseLate, CauseOlderPods:
		return "does not go on: " + r.Text
	}
	return r.Text
}

// timed explains a task that waits for its timer.
func (e *explainer) timed(t *Task, cause Cause, text string) Reason {
	switch {
	case t.Timer.IsZero():
		return nothing("it is " + t.State.String() + " and has no timer")
	case !t.Timer.After(e.s.Now):
		return e.late("its timer", t.Timer)
	}
	r := Reason{Cause: cause, Text: text + " " + e.until(t.Timer), Until: t.Timer}
	if cause == CauseBackoff && t.Error != "" {
		r.Text += ": " + Short(t.Error)
	}
	if cause == CauseBackoff && t.Machine {
		r.Remedy = otherProgram(t.Class)
	}
	return r
}

// far is how far away an instant is named by its date: a duration holds 292 years.
const far = 100 * 365 * 24 * time.Hour

// until says when an instant comes.
func (e *explainer) until(at time.Time) string {
	if in := at.Sub(e.s.Now); in < far {
		return "in " + Span(in)
	}
	return "on " + at.UTC().Format(time.DateOnly)
}

// late explains a timer that is due.
func (e *explainer) late(what string, at time.Time) Reason {
	over := e.s.Now.Sub(at)
	r := Reason{Cause: CauseLate, Text: what + " was due " + Span(over) + " ago", Since: at}
	switch leader, leads := e.leader(); {
	case len(e.s.Locks) > 0:
		return e.locked()
	case len(e.living()) == 0:
		return e.noPod()
	case leads && over < lateAfter:
		r.Text += ", the leader is about to fire it"
	case over >= lateAfter && e.passedOver(&r, r.Text, "durable_timers", "leader_epoch"):
	case leads && e.s.LeaderLock != nil && e.s.LeaderLock.Silent >= silentAfter:
		r.Pod = leader
		r.Text += fmt.Sprintf(" and the session of the leader, %s, pid %d, has said nothing for %s", leader, e.s.LeaderLock.PID, Span(e.s.LeaderLock.Silent))
		r.Remedy = fmt.Sprintf("unless LeaderPing is that long, the session hangs: select pg_terminate_backend(%d); if it stays, the server or its disk hangs", e.s.LeaderLock.PID)
	case leads:
		r.Text += " and the leader, " + leader + ", has not fired it"
		r.Pod, r.Remedy = leader, "look at the log of that pod, and at troupe doctor; a new leader is found when it is stopped"
	default:
		r.Text += " and " + e.noLeader(&r)
	}
	return r
}

// lateAfter is how late a timer may be before an operator should look.
const lateAfter = 5 * time.Second

// silentAfter is how long the leader's session may be silent before its silence is
// the explanation.
const silentAfter = 15 * time.Second

// noLeader says that no pod leads, names the holder of the leader's lock if there is
// one, and sets the remedy.
func (e *explainer) noLeader(r *Reason) string {
	const text = "no pod leads"
	switch l := e.s.LeaderLock; {
	case l == nil:
		r.Remedy = "pods elect a leader within seconds; if none does, look for errors of the election in their logs (DirectURL, behind a proxy)"
		return text
	case l.PID == 0:
		r.Remedy = "commit prepared it, or rollback prepared it"
		return fmt.Sprintf("%s: the prepared transaction %q holds the leader's lock", text, l.Prepared)
	default:
		r.Remedy = fmt.Sprintf("unless that is a pod that is being elected, which takes a moment, end that session: select pg_terminate_backend(%d)", l.PID)
		return fmt.Sprintf("%s: pid %d (%s) holds the leader's lock", text, l.PID, cmp.Or(l.Name, "without a name"))
	}
}

// leader returns the name of the pod that leads, if it lives.
func (e *explainer) leader() (name string, lives bool) {
	for i := range e.s.Pods {
		if p := &e.s.Pods[i]; p.ID == e.s.Leader && e.lives(p) {
			return p.label(), true
		}
	}
	return "", false
}

func (e *explainer) lives(p *Pod) bool { return !p.Dead && p.Expires.After(e.s.Now) }

// living returns the pods whose lease holds, but for those that execute nothing.
func (e *explainer) living() []*Pod {
	var pods []*Pod
	for i := range e.s.Pods {
		if p := &e.s.Pods[i]; e.lives(p) && p.Slots > 0 {
			pods = append(pods, p)
		}
	}
	return pods
}

// noPod explains that no pod is alive. If a transaction may hold rows of pods it names
// that one: a pod that cannot renew its lease looks dead.
func (e *explainer) noPod() Reason {
	if held := e.oldest("pods"); held != nil {
		return e.lockedBy(held, "no pod is alive: renewals wait for rows of pods, which may be held by")
	}
	return Reason{Cause: CauseNoPod, Text: "no pod is alive", Remedy: "start one, or look why it does not start"}
}

// enginePrefix begins the names of a pod's own sessions.
const enginePrefix = "troupe "

// locked explains by the lock with the most waiters.
func (e *explainer) locked() Reason {
	if len(e.s.Locks) == 0 {
		return Reason{
			Cause: CauseLocked, Text: "held by a lock that was gone when it was looked for",
			Remedy: "ask again",
		}
	}
	return e.lockedBy(e.worst(), "held by a lock of")
}

// worst returns the lock with the most waiters.
func (e *explainer) worst() *Lock {
	worst := &e.s.Locks[0]
	for i := range e.s.Locks {
		if e.s.Locks[i].Waiting > worst.Waiting {
			worst = &e.s.Locks[i]
		}
	}
	return worst
}

// lockedBy explains by one lock.
func (e *explainer) lockedBy(l *Lock, held string) Reason {
	if l.Prepared != "" {
		return Reason{
			Cause: CauseLocked, Text: fmt.Sprintf("%s the prepared transaction %q", strings.TrimSuffix(held, " a lock of"), l.Prepared), Since: e.s.Now.Add(-l.Age),
			Remedy: "commit prepared it, or rollback prepared it",
		}
	}
	text := fmt.Sprintf("%s pid %d", held, l.PID)
	if l.Query != "" {
		text += ": " + Statement(l.Query)
	}
	remedy := "let it finish"
	switch {
	case l.Idle:
		text += " (its transaction is idle since then)"
		remedy = "have it commit or roll back"
	case strings.HasPrefix(l.Name, enginePrefix):
		return Reason{
			Cause: CauseLocked, Text: fmt.Sprintf("%s (a pod's own statement, of %s)", text, l.Name), Since: e.s.Now.Add(-l.Age),
			Remedy: "ask troupe doctor what makes it slow, such as a trigger that is not the engine's; others wait their turn behind it",
		}
	}
	return Reason{
		Cause: CauseLocked, Text: text, Since: e.s.Now.Add(-l.Age),
		Remedy: fmt.Sprintf("%s, or end it with select pg_terminate_backend(%d)", remedy, l.PID),
	}
}

// passedOver explains rows of tables that are skipped for long by the oldest
// transaction that may hold them; seems is the symptom. It reports whether there is
// such a transaction.
func (e *explainer) passedOver(r *Reason, seems string, tables ...string) bool {
	held := e.oldest(tables...)
	if held == nil {
		return false
	}
	since := r.Since
	*r = e.lockedBy(held, fmt.Sprintf("%s: rows of %s are passed over, which may be held by", seems, tables[0]))
	r.Since = since
	return true
}

// oldest returns the oldest transaction that may hold rows of tables; nil: none does.
func (e *explainer) oldest(tables ...string) *Lock {
	var oldest *Lock
	for i := range e.s.Touched {
		l := &e.s.Touched[i]
		if (oldest == nil || l.Age > oldest.Age) && slices.ContainsFunc(tables, func(t string) bool { return slices.Contains(l.Tables, t) }) {
			oldest = l
		}
	}
	return oldest
}

// nothing is the reason of what must not happen.
func nothing(text string) Reason {
	return Reason{
		Cause: CauseNone, Text: "nothing was found that it waits for: " + text,
		Remedy: "run troupe doctor --deep and report what it says; canceling the run ends it",
	}
}
