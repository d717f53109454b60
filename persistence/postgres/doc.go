// Package postgres keeps everything in PostgreSQL: the adapter of
// persistence.Store that the product uses.
//
// Every statement is a file of internal/pgsql/sql, with a header that says who calls it,
// which locks it takes in which order, and the index it relies on. Rules about
// runs and tasks are in package lifecycle; this package loads rows under locks,
// asks lifecycle.Decide and writes the answer set-wise. There is one exception:
// a batch of plain successes takes the fast path, one statement that equals
// Decide for runs that are not slow (record/record_fast.sql).
//
// # Locks, in order
//
//	pods (key share: only the living write) → workflow_runs by id →
//	tasks by (run, step) → tenant_groups by (queue, group, lane) → inserts
//
// A writer locks its runs in a statement of its own, so that the next one sees
// what the previous holder wrote. Only then may a statement find a row's ctid
// and update by it: by ctid and primary key, because statistics cannot turn
// that into a scan, and by ctid alone rows of two tables could be confused.
// Claims stand outside: they lock queue rows and queued tasks and pass over
// what they do not get, so they wait for no lock.
//
// # Where things are
//
// Below this package:
//
//   - pgsql holds the statements and sends them, pgerr says what an error of the server
//     means, sessions holds the connections
//   - registry knows definitions, queues and tenants by their numbers
//   - inbox stores signals for runs, family what runs and their child runs are told of each other,
//     elements how far maps have come, machines how far state machines have
//   - history keeps ended runs, readers answers callers, requeue stores runs anew from
//     dead letters
//   - steptx begins the transactions of steps on the embedder's pool
//   - adaptive remembers what spares statements, quarantine what is locked, cannot be read or
//     is missing
//   - places gives out places in queues
//
// By the names of files; a star stands for the rest of a name:
//
//   - the store and its connections: store, open*
//   - triggers: trigger*, tenants, expand
//   - places in queues: places, peek, limits
//   - claims: claim*, grants
//   - completions: record*
//   - decisions, and what they write: decision_tx*, run, rows*
//   - cancels: cancel
//   - dead letters: dead_write
//   - signals, and news of child runs and parents: inbox*
//   - timers: timers
//   - the leader's other work: precheck, housekeeping, takeover
//   - pods and their leases: pods, renew
package postgres
