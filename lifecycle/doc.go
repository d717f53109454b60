// Package lifecycle decides how runs, tasks and leases change state.
//
// It is pure: no clock, no randomness, no goroutine, no I/O. Time and
// randomness arrive as values, so every decision can be replayed.
//
// # Where a rule lives
//
//   - which transitions exist: the tables of transition.go, one per lifecycle
//   - what an ended parent means for a child: verdict.go
//   - what a fact does to a run, to any depth: [Decide]; the facts are in
//     fact.go, what comes out of them in decision.go
//   - how long to wait before the next attempt: [RetryDelay]
//   - which tenant is served next: [FairID], [NextBlock], [MayInline], [Take]
//   - when a pod may still act: [DecideLease]
//   - what a supervisor does with a failed child: [DecideRestart]
//   - what was written down: [Event]; [Fold] rebuilds a state from it;
//     [CleanText] says what is kept of a text
//
// The scripts in testdata show the rules at work, the diagrams in
// docs/diagrams are drawn from the tables.
//
// # How a decision is made
//
// The caller locks a run, loads some of its tasks, and passes them to Decide
// with the facts that arrived. Decide works on copies and returns the rows to
// write. A fact is judged in this order: its epoch (an older one is stale,
// whatever the state), then the table, then the effects. If the cascade
// reaches a task that was not loaded, the decision says so and must be made
// again with more rows; nothing is remembered in between.
package lifecycle
