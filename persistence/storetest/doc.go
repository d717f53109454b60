// Package storetest is the contract that every persistence.Store keeps.
//
// A case is a name, the rule that it protects and a function; the rule is
// printed when the case fails. An adapter's test calls [Run] with a function
// that opens a fresh store. The cases are independent of each other and run in
// parallel, assume no particular instant, and end with a check of the
// invariants in everything that the store holds.
//
// What only one adapter can show (locks, lost connections, plans) is tested
// beside it.
//
// # Where things are
//
//   - what runs the cases, and what all cases use: storetest, world, worker, graphs
//   - triggers, and runs that wait to begin: trigger, keys, intx, take
//   - claims, and which tenant is served next: claim, inline, fairness, crowd
//   - completions, failures and what follows from them: record, repeat, branch, failure, cancel, timers, dynamic
//   - signals, and waits for them: signals, deadlines
//   - child runs: children, children_family
//   - maps: maps, maps_fair, maps_requeue
//   - state machines: machines*
//   - pods, and what happens to their tasks: lease, expiry, parking, blocked
//   - what readers see: reads, lists, counts, views, queues, situation, registry
//   - dead letters and history: dead, requeue, history
//   - two stores at once: differential*, twin*
package storetest
