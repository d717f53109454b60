// Package river measures github.com/riverqueue/river, a job queue. Workers
// fetch batches, are woken by NOTIFY (debounced by FetchCooldown), and complete
// in batches.
//
// The open-source River has no graph of jobs. Graphs are made by hand: a node
// inserts its successors in the transaction that completes it, and a table of the
// user counts those down that a join waits for.
package river
