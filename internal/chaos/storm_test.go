package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// F18: an actor that panics whenever it has something to do is restarted with
// growing pauses, then the pod gives up: its process ends, nothing of it is
// left, and others go on.
func TestActorStorm(t *testing.T) {
	t.Parallel()
	for _, actor := range []struct{ name, place string }{
		{"journal", "record one"}, {"claimer", "claim one"}, {"pulse", "skip a pulse"}, {"intake", "drain one"},
	} {
		t.Run(actor.name, func(t *testing.T) {
			t.Parallel()
			r := begin(t, row{
				ID: "F18", Name: "storm-" + actor.name, Fault: "the " + actor.name + " of a pod panics at everything it does, under load",
				FullOnly: actor.name == "claimer" || actor.name == "intake",
				Must:     "I12 I13; restarts with backoff, then the process ends; no lease, task or session of it is left",
				Allowed: []figure{
					atMost("panics until it gave up", 36, ""), within("ended after", 20*time.Second),
					none("lease left"), none("tasks that waited for its lease to end"),
				},
			})
			y := newYard(r, brisk(), 4)
			y.each = func(s *podSpec) {
				if s.Name == "pod-1" {
					s.Fail.Panic = actor.place
				}
			}
			pods := y.start("pod-1")
			y.eventually("it leads", func() bool { return y.leader() == "pod-1" })
			y.start("pod-2", "pod-3")
			y.warm()
			began := time.Now()
			y.arm("panic")
			y.awaitEnd(pods[0])
			r.took("ended after", time.Since(began))
			require.Equal(r, exitFailed, pods[0].command.ProcessState.ExitCode(), "the engine tells its embedder, who ends the process")
			r.count("lease left", y.number(`select count(*)::int from troupe.pods where name = 'pod-1'`))
			r.count("panics until it gave up", count(readLedger(r, pods[0].ledger), "panic"))
			y.resumed()
			v := y.settle()
			r.count("tasks that waited for its lease to end", v.losses)
		})
	}
}

// F18: what only the leader does fails on one pod: the lead goes to another.
func TestLeadersStorm(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F18", Name: "storm-timekeeper", Fault: "the timekeeper of the leader panics at every timer, under load; the other pods are sound",
		Must:    "I7 I12 I13; another pod leads, and the one that could not works on without the lead",
		Allowed: []figure{atMost("panics", 12, ""), within("another leads after", 5*time.Second), within("timers late by at most", 6*time.Second)},
	})
	y := newYard(r, brisk(), 4)
	y.each = func(s *podSpec) {
		if s.Name == "pod-1" {
			s.Fail.Panic = "fire one"
		}
	}
	pods := y.start("pod-1")
	y.eventually("it leads", func() bool { return y.leader() == "pod-1" })
	y.start("pod-2", "pod-3")
	y.warm()
	epoch := y.epoch()
	y.arm("panic")
	r.took("another leads after", y.until("another pod leads", patience, func() bool { return y.epoch() > epoch && y.leader() != "pod-1" }))
	y.resumed()
	r.count("panics", count(readLedger(r, pods[0].ledger), "panic"))
	y.settle()
	r.took("timers late by at most", time.Duration(y.number(latestNapSQL))*time.Millisecond)
}

// F18: there is no other pod to lead: the restarts of the timekeeper and of its
// supervisor are used up one after the other, and the process ends.
func TestHopelessStorm(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F18", Name: "storm-timekeeper-alone", Fault: "the timekeeper panics at every timer, on the only pod", FullOnly: true,
		Must:    "I1 I12; both budgets of restarts are used up, the process ends, and a sound pod works on",
		Allowed: []figure{atMost("panics until it gave up", 36, ""), within("ended after", time.Minute), none("lease left")},
	})
	y := newYard(r, brisk(), 2)
	y.each = func(s *podSpec) { s.Fail.Panic = "fire one" }
	pods := y.start("pod-1")
	y.warm()
	began := time.Now()
	y.arm("panic")
	y.awaitEnd(pods[0])
	r.took("ended after", time.Since(began))
	require.Equal(r, exitFailed, pods[0].command.ProcessState.ExitCode())
	r.count("panics until it gave up", count(readLedger(r, pods[0].ledger), "panic"))
	r.count("lease left", y.number(`select count(*)::int from troupe.pods`))
	y.each = nil
	y.start("pod-2")
	y.settle()
}
