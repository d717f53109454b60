package explain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

func now() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

func in(d time.Duration) time.Time { return now().Add(d) }

const handler = 7

// ready is a task that waits for its turn, third of its tenant and fifth of all.
func ready() explain.Task {
	return explain.Task{
		Name: "charge", State: lifecycle.Queued, Queue: "default", Handler: handler, QueuedAt: in(-time.Second),
		Ready: true, Place: 1, Nth: 1,
	}
}

func pod(id int64) explain.Pod {
	return explain.Pod{ID: id, Name: "pod", Slots: 10, Expires: in(10 * time.Second), Queues: []string{"default"}, Handlers: []int32{handler}}
}

// usual is a run with the given tasks, and a pod that leads.
func usual(tasks ...explain.Task) explain.Situation {
	return explain.Situation{
		Now: now(), State: lifecycle.Running, Tasks: tasks, Pods: []explain.Pod{pod(1)}, Leader: 1,
		Queues: []explain.Queue{{Name: "default", Length: 1}}, Handlers: []explain.Handler{{Number: handler}},
	}
}

type row struct {
	name  string
	alter func(s *explain.Situation)
	cause explain.Cause
	line  string // of the last task, or of the run
}

func queuedRows() []row {
	first := func(change func(t *explain.Task)) func(*explain.Situation) {
		return func(s *explain.Situation) { change(&s.Tasks[0]) }
	}
	return []row{
		{"ready", nil, explain.CauseReady, "charge: ready, the next claim takes it"},
		{"ready for long", first(func(t *explain.Task) { t.QueuedAt = in(-time.Minute) }), explain.CauseReady, "charge: ready for 1 m although 10 of 10 slots are free (look at "},
		{"ready for long, and its tenant's limit unknown", func(s *explain.Situation) {
			s.Tasks[0].QueuedAt, s.TenantBusy, s.TenantLimitUnknown = in(-time.Minute), 1, true
		}, explain.CauseReady, "charge: ready for 1 m although 10 of 10 slots are free (look at \"degraded\" in /readyz of the pods: wakes may not reach them, and then they look every second to every half minute;" +
			" or its tenant is at TenantLimit: set TROUPE_TENANT_LIMIT for this command)"},
		{"ready for long, and its tenant runs nothing", func(s *explain.Situation) {
			s.Tasks[0].QueuedAt, s.TenantLimitUnknown = in(-time.Minute), true
		}, explain.CauseReady, "charge: ready for 1 m although 10 of 10 slots are free (look at \"degraded\" in /readyz of the pods: wakes may not reach them, and then they look every second to every half minute)"},
		{"all slots busy", func(s *explain.Situation) {
			s.Tasks[0].Place, s.Tasks[0].Nth = 3, 7
			s.Pods = append(s.Pods, pod(2))
			s.Pods[0].Held, s.Pods[1].Held = 10, 10
		}, explain.CauseInLine, "charge: 7th in tenant line, 2 ahead; all 20 slots busy (more pods"},
		{"others before it", first(func(t *explain.Task) { t.Place, t.Nth = 12, 2 }), explain.CauseInLine, "charge: 2nd in tenant line, 11 ahead, 10 of 10 slots free"},
		{"far behind", func(s *explain.Situation) {
			s.Tasks[0].Ready, s.Queues[0].Length = false, explain.LineMax
		}, explain.CauseInLine, "charge: behind more than 20000 others in queue default, 10 of 10 slots free"},
		{"its wait ends", first(func(t *explain.Task) { t.Expires = in(90 * time.Second) }), explain.CauseReady, "charge: ready, the next claim takes it, fails in 1 m 30 s unless it starts"},
		{"nowhere", first(func(t *explain.Task) { t.Ready = false }), explain.CauseNone, "charge: nothing was found that it waits for: it is ready and stands in no queue (run troupe doctor"},
		{"no pod", func(s *explain.Situation) { s.Pods = nil }, explain.CauseNoPod, "charge: no pod is alive (start one"},
		{"no pod, and their rows held", func(s *explain.Situation) {
			s.Pods, s.Touched = nil, []explain.Lock{{PID: 6, Query: "select 1", Tables: []string{"claims", "pods"}}}
		}, explain.CauseLocked, "charge: no pod is alive: renewals wait for rows of pods, which may be held by pid 6: select 1 (let it finish, or end it with select pg_terminate_backend(6))"},
		{"only a client", func(s *explain.Situation) { s.Pods[0].Slots = 0 }, explain.CauseNoPod, "charge: no pod is alive (start one"},
		{"only dead pods", func(s *explain.Situation) { s.Pods[0].Expires = now() }, explain.CauseNoPod, "charge: no pod is alive"},
		{"unregistered", func(s *explain.Situation) {
			s.Pods[0].Handlers, s.Handlers[0].LastSeen = nil, in(-6*time.Minute)
		}, explain.CauseUnregistered, "charge: no live pod registers it, last seen 6 m ago (start a pod of a version"},
		{"its definition removed", func(s *explain.Situation) { s.Undefined = true }, explain.CauseUnregistered, "the definition of its workflow was removed from the database: no pod can continue the run or cancel it (start the program"},
		{"never registered", func(s *explain.Situation) { s.Pods[0].Handlers = nil }, explain.CauseUnregistered, "charge: no live pod registers it (start"},
		{"unserved", func(s *explain.Situation) { s.Pods[0].Queues = []string{"gpu"} }, explain.CauseUnserved, `charge: no pod that registers it serves the queue "default" (add the queue`},
		{"parked", first(func(t *explain.Task) { t.Ready, t.Parked = false, true }), explain.CauseReturning, "charge: was parked while no live pod registered it; pod (1) does now, so it is put back"},
		{"tenant limit", func(s *explain.Situation) { s.TenantLimit, s.TenantBusy = 3, 3 }, explain.CauseTenantLimit, "charge: its tenant runs 3 tasks and may run 3 (wait"},
		{"suspect", func(s *explain.Situation) {
			s.Tasks[0].Suspect, s.Tasks[0].Lost, s.Pods[0].Suspects = true, 2, 1
		}, explain.CauseSuspect, "charge: lost twice with its pod; such tasks run one at a time on a pod, and each of 1 pod runs one (look why"},
		{"suspect and free", first(func(t *explain.Task) { t.Suspect, t.Lost = true, 1 }), explain.CauseReady, "charge: ready"},
		{"deaf", func(s *explain.Situation) { s.Pods[0].Held, s.Pods[0].Stuck = 8, 2 }, explain.CauseDeaf, "charge: 1st in tenant line, 0 ahead; all 10 slots busy, 2 of them by functions that ignore their context (end such"},
		{"locked", func(s *explain.Situation) {
			s.Locks = []explain.Lock{{PID: 4711, Query: "ALTER TABLE\n troupe.tasks ADD x int", Age: time.Minute, Waiting: 2}, {PID: 1}}
		}, explain.CauseLocked, "charge: held by a lock of pid 4711: ALTER TABLE troupe.tasks ADD x int (let it finish, or end it with select pg_terminate_backend(4711))"},
		{"locked by a prepared transaction", func(s *explain.Situation) { s.Locks = []explain.Lock{{Prepared: "tx 1", Age: time.Minute}} }, explain.CauseLocked, `charge: held by the prepared transaction "tx 1" (commit prepared it, or rollback prepared it)`},
		{"locked by a pod's own statement", func(s *explain.Situation) {
			s.Locks = []explain.Lock{{PID: 7, Name: "troupe pod-a", Query: "with slow as (select 1)", Age: 3 * time.Second}}
		}, explain.CauseLocked, "charge: held by a lock of pid 7: with slow as (select 1) (a pod's own statement, of troupe pod-a) (ask troupe doctor what makes it slow, such as a trigger that is not the engine's; others wait their turn behind it)"},
		{"passed over", func(s *explain.Situation) {
			s.Tasks[0].QueuedAt = in(-40 * time.Second)
			s.Touched = []explain.Lock{{PID: 1, Age: time.Hour, Tables: []string{"pods"}}, {PID: 7, Age: time.Minute, Idle: true, Query: "select 1", Tables: []string{"claims", "ready_queue"}}}
		}, explain.CauseLocked, "charge: ready for 40 s although 10 of 10 slots are free: rows of ready_queue are passed over, which may be held by pid 7: select 1 (its transaction is idle since then) (have it commit"},
		{"locked by an idle one", func(s *explain.Situation) { s.Locks = []explain.Lock{{PID: 5, Idle: true}} }, explain.CauseLocked, "charge: held by a lock of pid 5 (its transaction is idle since then) (have it commit"},
	}
}

func runningRows() []row {
	with := func(change func(s *explain.Situation)) func(*explain.Situation) {
		return func(s *explain.Situation) {
			s.Tasks[0].State, s.Tasks[0].Pod, s.Tasks[0].StartedAt = lifecycle.Running, 1, in(-72*time.Second)
			change(s)
		}
	}
	return []row{
		{"running", with(func(*explain.Situation) {}), explain.CauseRunning, "charge: running on pod (1) for 1 m 12 s"},
		{"lost, and its pod's row held", with(func(s *explain.Situation) {
			s.Pods = append(s.Pods, explain.Pod{ID: 2, Slots: 1, Expires: in(time.Minute)})
			s.Pods[0].Expires, s.Touched = in(-16*time.Second), []explain.Lock{{Prepared: "x", Tables: []string{"pods"}}}
		}), explain.CauseLocked, `charge: its pod pod (1) is dead, its lease ended 16 s ago: rows of pods are passed over, which may be held by the prepared transaction "x" (commit`},
		{"lost, and the pods held", with(func(s *explain.Situation) {
			s.Pods = append(s.Pods, explain.Pod{ID: 2, Slots: 1, Expires: in(time.Minute)})
			s.Pods[0].Expires, s.Locks = in(-4*time.Second), []explain.Lock{{PID: 5}}
		}), explain.CauseLocked, "charge: its pod pod (1) is dead, its lease ended 4 s ago; nothing is taken over meanwhile: held by a lock of pid 5 (let it"},
		{"all lost, and the pods held", with(func(s *explain.Situation) {
			s.Pods[0].Expires, s.Locks = in(-4*time.Second), []explain.Lock{{PID: 5}}
		}), explain.CausePodLost, "charge: its pod pod (1) is dead, its lease ended 4 s ago; its tasks are taken over; held by a lock of pid 5 (let it finish, or end it with select pg_terminate_backend(5); no other pod is alive: start one"},
		{"all lost, and their rows held", with(func(s *explain.Situation) {
			s.Pods[0].Expires, s.Touched = in(-4*time.Second), []explain.Lock{{Prepared: "x", Tables: []string{"pods"}}}
		}), explain.CauseLocked, "charge: its pod pod (1) is dead, its lease ended 4 s ago, and no pod is alive: renewals wait for rows of pods, which may be held by the prepared transaction \"x\" (commit"},
		{"running and locked", with(func(s *explain.Situation) { s.Locks = []explain.Lock{{PID: 5, Idle: true}} }), explain.CauseRunning, "charge: running on pod (1) for 1 m 12 s; nothing of it is recorded meanwhile, and with InTx it is not begun: held by a lock of pid 5 (its transaction is idle since then) (have it commit"},
		{"stopping and locked", with(func(s *explain.Situation) { s.Canceling, s.Locks = true, []explain.Lock{{PID: 5}} }), explain.CauseStopping, "charge: its run is canceled and its function has not returned, on pod (1) for 1 m 12 s; nothing of it is recorded meanwhile, and with InTx it is not begun: held by a lock of pid 5 (a function that ignores its context is deaf: have it return when the context ends; let it finish"},
		{"again", with(func(s *explain.Situation) { s.Tasks[0].Attempt, s.Tasks[0].Lost = 2, 1 }), explain.CauseRunning, "charge: running on pod (1) for 1 m 12 s, attempt 3, lost once before"},
		{"pod silent", with(func(s *explain.Situation) {
			s.Lease, s.Pulse, s.Pods[0].Expires = 15*time.Second, 5*time.Second, in(3*time.Second)
		}), explain.CausePodLate, "charge: its pod pod (1) has not renewed for 12 s and may be dead: its lease ends in 3 s (others"},
		{"pod late by a little", with(func(s *explain.Situation) {
			s.Lease, s.Pulse, s.Pods[0].Expires = 15*time.Second, 5*time.Second, in(6*time.Second)
		}), explain.CauseRunning, "charge: running"},
		{"lease over", with(func(s *explain.Situation) { s.Pods[0].Expires = in(-2 * time.Second) }), explain.CausePodLost, "charge: its pod pod (1) is dead, its lease ended 2 s ago; its tasks are taken over (no other pod is alive"},
		{"declared dead", with(func(s *explain.Situation) {
			s.Pods[0].Dead = true
			s.Pods, s.Leader = append(s.Pods, pod(2)), 2
		}), explain.CausePodLost, "charge: its pod pod (1) is dead; its tasks are taken over"},
		{"no pod leads", with(func(s *explain.Situation) {
			s.Pods[0].Dead = true
			s.Pods = append(s.Pods, pod(2))
		}), explain.CausePodLost, "charge: its pod pod (1) is dead; its tasks are taken over, but no pod leads (pods elect"},
		{"pod gone", with(func(s *explain.Situation) { s.Pods[0].ID = 2 }), explain.CauseNone, "charge: nothing was found"},
		{"stopping", with(func(s *explain.Situation) { s.Canceling, s.Fenced = true, in(18*time.Second) }), explain.CauseStopping, "charge: its run is canceled and its function has not returned, on pod (1) for 1 m 12 s; it is recorded as canceled in 18 s (a function that ignores"},
	}
}

func timerRows() []row {
	state := func(state lifecycle.State, timer time.Time) func(*explain.Situation) {
		return func(s *explain.Situation) {
			t := &s.Tasks[0]
			t.State, t.Timer, t.Attempt, t.Error = state, timer, 2, "card declined"
		}
	}
	late := func(d time.Duration, change func(s *explain.Situation)) func(*explain.Situation) {
		return func(s *explain.Situation) {
			state(lifecycle.Sleeping, in(-d))(s)
			change(s)
		}
	}
	return []row{
		{"sleeps", state(lifecycle.Sleeping, in(3*time.Hour+12*time.Minute)), explain.CauseSleeping, "charge: sleeps, fires in 3 h 12 m"},
		{"sleeps for ages", state(lifecycle.Sleeping, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)), explain.CauseSleeping, "charge: sleeps, fires on 9999-12-31"},
		{"backs off", state(lifecycle.Backoff, in(4*time.Second)), explain.CauseBackoff, "charge: tried twice, again in 4 s: card declined"},
		{"due", late(time.Second, func(*explain.Situation) {}), explain.CauseLate, "charge: its timer was due 1 s ago, the leader is about to fire it"},
		{"late", late(time.Minute, func(*explain.Situation) {}), explain.CauseLate, "charge: its timer was due 1 m ago and the leader, pod (1), has not fired it (look at"},
		{"late without leader", late(time.Minute, func(s *explain.Situation) { s.Leader = 0 }), explain.CauseLate, "charge: its timer was due 1 m ago and no pod leads (pods elect"},
		{"late, and another session holds the leader's lock", late(time.Minute, func(s *explain.Situation) {
			s.Leader, s.LeaderLock = 0, &explain.Lock{PID: 8, Name: "psql"}
		}), explain.CauseLate, "charge: its timer was due 1 m ago and no pod leads: pid 8 (psql) holds the leader's lock (unless that is a pod that is being elected, which takes a moment, end that session: select pg_terminate_backend(8))"},
		{"late, and the leader's lock is prepared", late(time.Minute, func(s *explain.Situation) {
			s.Leader, s.LeaderLock = 0, &explain.Lock{Prepared: "x"}
		}), explain.CauseLate, "charge: its timer was due 1 m ago and no pod leads: the prepared transaction \"x\" holds the leader's lock (commit"},
		{"late, and the leader's session hangs", late(time.Minute, func(s *explain.Situation) {
			s.LeaderLock = &explain.Lock{PID: 8, Name: "troupe leader", Silent: 46 * time.Second}
		}), explain.CauseLate, "charge: its timer was due 1 m ago and the session of the leader, pod (1), pid 8, has said nothing for 46 s (unless LeaderPing is that long, the session hangs: select pg_terminate_backend(8); if it stays, the server or its disk hangs)"},
		{"late, and the leader speaks", late(time.Minute, func(s *explain.Situation) {
			s.LeaderLock = &explain.Lock{PID: 8, Name: "troupe leader", Silent: time.Second}
		}), explain.CauseLate, "charge: its timer was due 1 m ago and the leader, pod (1), has not fired it (look at"},
		{"late without pods", late(time.Minute, func(s *explain.Situation) { s.Pods = nil }), explain.CauseNoPod, "charge: no pod is alive"},
		{"late, and timers held", late(time.Minute, func(s *explain.Situation) {
			s.Touched = []explain.Lock{{PID: 4, Tables: []string{"durable_timers"}}}
		}), explain.CauseLocked, "charge: its timer was due 1 m ago: rows of durable_timers are passed over, which may be held by pid 4 (let it"},
		{"late by a lock", late(time.Minute, func(s *explain.Situation) { s.Locks = []explain.Lock{{PID: 4}} }), explain.CauseLocked, "charge: held by a lock of pid 4"},
		{"no timer", state(lifecycle.Sleeping, time.Time{}), explain.CauseNone, "charge: nothing was found"},
		{"waits", waits(time.Time{}, time.Time{}, false), explain.CauseSignal, `charge: waits for the signal "paid" (troupe runs signal 00000000-0000-0000-0000-000000000000 paid JSON sends it)`},
		{"waits, and is skipped", waits(in(-3*time.Hour), in(9*time.Hour), true), explain.CauseSignal, `charge: waits for the signal "paid" since 3 h, skipped in 9 h (`},
		{"waits, and fails", waits(in(-time.Minute), in(time.Minute), false), explain.CauseSignal, `charge: waits for the signal "paid" since 1 m, fails in 1 m (`},
		{"waits for too long", waits(in(-time.Hour), in(-time.Minute), true), explain.CauseLate, "charge: the deadline of its wait was due 1 m ago and"},
	}
}

// waits makes the task wait for a signal.
func waits(since, deadline time.Time, skips bool) func(*explain.Situation) {
	return func(s *explain.Situation) {
		t := &s.Tasks[0]
		t.State, t.Signal, t.Since, t.Timer, t.SkipLate = lifecycle.Waiting, "paid", since, deadline, skips
	}
}

// failed makes a situation that of a run which failed 2 minutes ago.
func failed(step explain.Failed) func(*explain.Situation) {
	return func(s *explain.Situation) {
		s.State, s.End = lifecycle.Failed, explain.End{At: in(-2 * time.Minute), Failed: []explain.Failed{step}}
	}
}

func runRows() []row {
	return []row{
		{"ended", func(s *explain.Situation) { s.State = lifecycle.Failed }, explain.CauseEnded, "the run has ended: it is failed"},
		{"completed a while ago", func(s *explain.Situation) {
			s.State, s.End.At = lifecycle.Completed, in(-3*time.Minute)
		}, explain.CauseEnded, "the run has ended 3 m ago: it is completed"},
		{"canceled", func(s *explain.Situation) {
			s.State, s.End = lifecycle.Canceled, explain.End{At: in(-time.Minute), CanceledBy: "cli (anna)", CancelReason: "wrong\ninput"}
		}, explain.CauseCanceled, "the run was canceled 1 m ago, by cli (anna): wrong input"},
		{"canceled for no reason", func(s *explain.Situation) {
			s.State, s.End.CanceledBy = lifecycle.Canceled, "api"
		}, explain.CauseCanceled, "the run was canceled, by api"},
		{
			"failed", failed(explain.Failed{Name: "charge", Attempts: 3, Class: "declined", Error: "card\ndeclined"}), explain.CauseFailed,
			"charge: failed for good 2 m ago, after 3 attempts, with class declined: card declined (once its cause is mended: troupe runs requeue ",
		},
		{
			"failed and requeued", failed(explain.Failed{Name: "charge", Attempts: 1, Error: "no", RequeuedAt: in(-time.Minute), RequeuedAs: workflow.RunID{15: 9}}),
			explain.CauseFailed, "charge: failed for good 2 m ago, after 1 attempt: no; requeued 1 m ago as run " + workflow.RunID{15: 9}.String() +
				" (troupe explain " + workflow.RunID{15: 9}.String() + " says how that run stands)",
		},
		{
			"failed as a child run", func(s *explain.Situation) {
				failed(explain.Failed{Name: "charge", At: in(-time.Hour), Attempts: 1, Error: "no"})(s)
				s.Parent = workflow.RunID{15: 8}
			}, explain.CauseFailed,
			"charge: failed for good 1 h ago, after 1 attempt: no (once its cause is mended: troupe runs requeue " +
				workflow.RunID{15: 8}.String() + ", when that has ended, begins another run in place of this one; or troupe runs requeue ",
		},
		{
			"a map failed", failed(explain.Failed{Name: "files", Class: "element_failed", Error: "no"}), explain.CauseFailed,
			"files: failed for good 2 m ago, before its first attempt, with class element_failed: no (troupe runs elements " + usual().Run.String() + " files --state failed lists the elements; once ",
		},
		{"failed at once", failed(explain.Failed{Name: "charge", Attempts: 1, Error: "no"}), explain.CauseFailed, "charge: failed for good 2 m ago, after 1 attempt: no ("},
		{"failed by losses", failed(explain.Failed{Name: "charge", Lost: 4, Class: "lost"}), explain.CauseFailed, "charge: failed for good 2 m ago, lost 4 times with its pod, with class lost ("},
		{"waited for too long", failed(explain.Failed{Name: "charge", Class: "wait_timeout", Error: "no signal"}), explain.CauseFailed, "charge: failed for good 2 m ago, with class wait_timeout: no signal ("},
		{"never begun", failed(explain.Failed{Name: "charge", Class: "timed_out"}), explain.CauseFailed, "charge: failed for good 2 m ago, before its first attempt, with class timed_out ("},
		{"unreadable", func(s *explain.Situation) {
			*s = explain.Situation{Now: now(), Unreadable: true, Locks: []explain.Lock{{PID: 9, Query: "VACUUM FULL troupe.tasks"}}}
		}, explain.CauseLocked, "held by a lock of pid 9: VACUUM FULL troupe.tasks (let it"},
		{"unreadable for a moment", func(s *explain.Situation) { *s = explain.Situation{Unreadable: true} }, explain.CauseLocked, "held by a lock that was gone when it was looked for (ask again)"},
		{"intake", func(s *explain.Situation) { s.Submitted, s.State, s.Tasks = true, lifecycle.Pending, nil }, explain.CauseIntake, "it was stored with a transaction and waits in the intake (pods take"},
		{"older pods", func(s *explain.Situation) {
			s.Submitted, s.State, s.Tasks, s.Protocol = true, lifecycle.Pending, nil, 3
			s.Pods[0].Protocol = 3
			s.Pods = append(s.Pods, explain.Pod{ID: 2, Name: "old", Protocol: 2}, explain.Pod{ID: 3, Name: "gone", Dead: true})
		}, explain.CauseOlderPods, "it begins when pods of an older version have left, which do not know its workflow: old (2) (replace"},
		{"intake without pods", func(s *explain.Situation) { s.Submitted, s.Pods = true, nil }, explain.CauseNoPod, "no pod is alive"},
		{"scheduled", func(s *explain.Situation) { s.State, s.StartsAt = lifecycle.Pending, in(26*time.Hour) }, explain.CauseScheduled, "starts in 1 d 2 h"},
		{"scheduled and late", func(s *explain.Situation) { s.State, s.StartsAt = lifecycle.Pending, in(-time.Minute) }, explain.CauseLate, "its start was due 1 m ago and"},
		{"never scheduled", func(s *explain.Situation) { s.State = lifecycle.Pending }, explain.CauseNone, "nothing was found"},
		{"no open step", func(s *explain.Situation) { s.Tasks = nil }, explain.CauseNone, "nothing was found"},
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	for _, r := range slices.Concat(queuedRows(), runningRows(), timerRows(), runRows()) {
		s := usual(ready())
		if r.alter != nil {
			r.alter(&s)
		}
		reasons := explain.Explain(s)
		require.Len(t, reasons, 1, r.name)
		require.Equal(t, r.cause, reasons[0].Cause, "%s: %v", r.name, reasons[0])
		require.True(t, strings.HasPrefix(reasons[0].String(), r.line), "%s:\n%s\n%s", r.name, reasons[0], r.line)
	}
}

// Each step that failed is told, the first failure first.
func TestExplainTellsEachFailure(t *testing.T) {
	t.Parallel()
	s := usual()
	failed(explain.Failed{Name: "side", Attempts: 1, Lost: 1, Class: "test", Error: "broke"})(&s)
	s.End.Failed = append(s.End.Failed, explain.Failed{Name: "charge", Attempts: 2})
	reasons := explain.Explain(s)
	require.Len(t, reasons, 2)
	require.Equal(t, "charge", reasons[1].Step)
	reasons[0].Text, reasons[0].Remedy = "", ""
	require.Equal(t, explain.Reason{
		Step: "side", Cause: explain.CauseFailed, Since: in(-2 * time.Minute), Class: "test", Error: "broke", Attempts: 1, Losses: 1,
	}, reasons[0])
}

// A step that waits is explained by those it waits for, and these by the first
// that does something.
func TestExplainPending(t *testing.T) {
	t.Parallel()
	step := func(n int32, name string, children ...int32) explain.Task {
		task := explain.Task{Step: n, Name: name, State: lifecycle.Pending, Pending: 1}
		for _, child := range children {
			task.Children = append(task.Children, workflow.Child{Step: child})
		}
		return task
	}
	window := step(0, "fraud-window", 1)
	window.State, window.Timer = lifecycle.Sleeping, in(3*time.Hour+12*time.Minute)
	line := func(s explain.Situation) []string {
		var lines []string
		for _, r := range explain.Explain(s) {
			lines = append(lines, r.String())
		}
		return lines
	}
	require.Equal(t, []string{
		"fraud-window: sleeps, fires in 3 h 12 m",
		"ship: waits for fraud-window, which sleeps, fires in 3 h 12 m",
		"tell: waits for ship; fraud-window sleeps, fires in 3 h 12 m",
	}, line(usual(window, step(1, "ship", 2), step(2, "tell"))))

	var fan []explain.Task
	for i := range int32(5) {
		task := ready()
		task.Step, task.Name, task.Children = i, fmt.Sprintf("part%d", i), []workflow.Child{{Step: 5}}
		fan = append(fan, task)
	}
	s := usual(append(fan, step(5, "join"))...)
	s.Pods[0].Handlers = nil
	require.Equal(t, "join: waits for part0, part1, part2 and 2 more; part0 does not go on: no live pod registers it"+
		" (start a pod of a version that has this step as it was when the run began, or cancel the run)", line(s)[5])
	require.Equal(t, explain.CauseNone, explain.Explain(usual(step(0, "orphan")))[0].Cause)
	s = usual(fan[0], step(5, "join"))
	s.Pods, s.Touched = nil, []explain.Lock{{PID: 6, Tables: []string{"pods"}}}
	require.Contains(t, line(s)[1], "join: waits for part0, which does not go on: no pod is alive: renewals wait")
	circle := usual(step(0, "a", 1), step(1, "b", 0))
	require.Equal(t, explain.CauseParents, explain.Explain(circle)[0].Cause, "not a graph, and still an answer")
}

// FuzzExplain: whatever a situation holds, every task gets its reason.
func FuzzExplain(f *testing.F) {
	f.Add(uint64(0), uint64(0), int64(0), "")
	f.Add(uint64(0x0301_0206), uint64(0xffff), int64(time.Hour), "x")
	f.Fuzz(func(t *testing.T, shape, flags uint64, offset int64, text string) {
		s := usual()
		s.State = lifecycle.State(shape % 16)
		s.Unreadable, s.Submitted, s.Canceling, s.Undefined = flags&1 > 0, flags&2 > 0, flags&4 > 0, flags&(1<<7) > 0
		if flags&8 > 0 {
			s.Pods = nil
		}
		s.Lease, s.Pulse = time.Duration(offset), time.Second
		for i := range int32(shape >> 4 % 7) {
			task := ready()
			task.Step, task.Name, task.Error = i, text, text
			task.State = lifecycle.State(shape >> (8 + 4*i) % 16)
			task.Ready, task.Parked, task.Suspect = flags>>(8+i)&1 > 0, flags>>(16+i)&1 > 0, flags>>(24+i)&1 > 0
			task.Timer, task.Pod = now().Add(time.Duration(offset)), int64(flags>>32%3)
			task.Children = []workflow.Child{{Step: int32(flags >> (40 + i) % 9)}}
			s.Tasks = append(s.Tasks, task)
		}
		reasons := explain.Explain(s)
		require.NotEmpty(t, reasons)
		for _, r := range reasons {
			require.NotEmpty(t, r.Cause)
			require.NotEmpty(t, r.Text)
			require.NotContains(t, r.Text, "\n")
		}
	})
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 s", -time.Hour: "0 s", 12 * time.Millisecond: "12 ms", 999 * time.Microsecond: "0 s", 4 * time.Second: "4 s", 4*time.Second + 5*time.Millisecond: "4 s",
		61 * time.Second: "1 m 1 s", time.Hour: "1 h", 3*time.Hour + 12*time.Minute + time.Second: "3 h 12 m", 50 * time.Hour: "2 d 2 h",
	} {
		require.Equal(t, want, explain.Span(d), d.String())
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a b", explain.Short(" a\n\tb "))
	long := explain.Short(strings.Repeat("ü", 200))
	require.Equal(t, strings.Repeat("ü", 60)+"…", long)
}

func TestStatementShowsNoPassword(t *testing.T) {
	t.Parallel()
	require.Equal(t, "alter role r with password …", explain.Statement("alter role r\nwith PASSWORD 'geheim'"))
	require.Equal(t, "select 1", explain.Statement(" select  1"))
}

func TestStatementSaysThatItIsHidden(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a statement that this role may not see (pg_read_all_stats shows it)", explain.Statement("<insufficient privilege>"))
}
