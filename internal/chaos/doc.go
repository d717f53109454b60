// Package chaos is tests only: the whole engine on a real PostgreSQL, in pods
// that are processes of their own, under load, while things are killed, frozen
// and cut off.
//
// The test binary is the pod, too: it starts itself with the description of a
// pod in its environment. Pods trigger runs of several shapes all the time and
// wait for their ends. What step functions do is written to files, outside of
// PostgreSQL: the ledger.
//
//	make chaos                   every fault, and the board: a table, a line for each
//	make chaos FAULTS=F07,F25    these rows only
//	make chaos JSON=1            the board as lines of JSON
//	make chaos-board             every fault; the board and its figures go into docs
//	make soak MINUTES=60         a fault a minute under mixed load, and what grows
//	go test ./internal/chaos     each fault for a few seconds, without the long rows
//
// The board says on which commit, machine and server it was made, and of each row
// what was allowed, what was measured, how long it took, and a verdict: met,
// FAILED (the reason, and the folder of the logs, ledgers and history), not
// injected (why this machine cannot), or did not run. Rows that failed or did
// not run make the exit code 1. docs/reliability-board.json is the board that is
// kept; what docs/reliability-board.md and docs/reliability.md say of it is made of
// that file, and a test compares (page_test.go).
//
// A soak spares its first pod from faults that end a process, so that one is
// measured from the beginning to the end. It has the configuration of production
// unless faults come more often than every 30 s. Series are judged by their slope
// over the second half (soak_slopes_test.go), against soakLimits.
//
// # A row
//
// A row is a test that begins with its declaration. It needs no other entry:
//
//	func TestBackendKillStorm(t *testing.T) {
//		t.Parallel()
//		r := begin(t, row{
//			ID: "F19", Name: "backend-kill-storm", Fault: "pg_terminate_backend, 10 a second",
//			Must: "I1 to I6", Allowed: []figure{atLeast("recovered", 95, "%"), within("resumed after", 2*time.Second)},
//		})
//		y := newYard(r, brisk(), 6)         // a database on the shared server; 6 callers in each pod
//		y.start("pod-1", "pod-2", "pod-3")  // processes; ready when it returns
//		y.warm()                            // a leader, and 50 runs have ended
//		// ... inject the fault, heal it ...
//		r.took("resumed after", y.resumed()) // every figure must be measured, by its name
//		r.measure("recovered", 97.5)
//		y.settle()                          // ends the load, then judges
//	}
//
// Use r wherever a testing.TB is asked for: it keeps the first reason of a
// failure for the board. settle (or judge, without load) is what every row ends
// with. It waits until every run has ended, and checks that nothing that a
// caller was told is missing, that no task completed twice, that effects are
// repeated only where a task was lost or handed back, that the tables hold all
// invariants and agree with the folded history, that no deadlock occurred, and
// that pods give back what they took: goroutines, sessions, slots and locks. It
// stops the pods: whatever needs them comes before.
//
// newServerYard gives the row a server of its own, which it may stop and which
// takes settings. newYardOn takes any address; y.url may be changed afterwards,
// to one of a proxy. y.each changes what a pod is told before it starts. Shapes
// of runs are in shapes_test.go: give one a name, add it to register, and
// trigger it by that name. Times of pods come from tuning; brisk is faster than the
// defaults by 3 to 20 times, as the table in docs/reliability.md says, and figures
// are said for it.
//
// spell(a, b) is a in `go test` and b in `make chaos`; FullOnly leaves a row to
// `make chaos`. Times that within allows are only shown in `go test`, where other rows
// and packages have the cores, too; any other figure that a busy machine changes is
// given its limit there with inGoTest. A fault that the machine cannot inject is
// r.notInjected(why). IDs are those of scoreboard(); one of which no test speaks
// is on the board as "did not run".
package chaos
