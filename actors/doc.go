// Package actors is the supervision tree of one pod.
//
// Every actor is a shell: it turns a message into values, lets a pure function
// decide, and sends the effects on. Each has a file of its own whose header
// names its state, its parent, the messages that it accepts and sends, and its restart. The tree is one table in tree.go; the diagrams under
// docs/diagrams are printed from it and from the headers, and tests hold them
// equal to the code.
//
// # How an actor waits
//
// Receive never blocks. A store call or a step function runs on a goroutine of
// the [Executor]; the result comes back as an ordinary message with the number of the
// question. An answer to an older question is
// dropped. Timers are messages, too. So every wait of the engine is a message,
// and a simulation that delivers messages one by one sees all of its states.
//
// # Trust between actors
//
// Every answer may be lost and every message may be late. A task is known by
// run, step and epoch; a message with an old epoch changes nothing. A run actor
// keeps the outcome of its attempt and sends it again until it is answered. A
// database that cannot be reached is never a failure of an actor: the same
// call is made again, with a growing delay.
//
// # State that survives a restart
//
// An actor that panicked starts from nothing, except for the state that its producer
// carries over: the claim or the batch whose outcome is unknown, triggers and
// cancels with waiting callers, waiters for the end of a run, the table of
// held tasks, the leader's term. It is asked for again under the same id, so
// that nothing is lost or doubled. A pod that was declared dead and joins again
// keeps the questions of callers, and gives up the rest.
//
// # Leaving this package
//
// [Start] returns a [Pod], the one place where goroutines of the embedder meet
// actors.
//
// # Where things are
//
// How healthy a pod is, is judged by values of internal/vitals.
//
// By the names of files; a star stands for any ending:
//
//   - the pod as the embedder sees it: start, config, pod*, poolusage, refusal*, errors
//   - the tree and its restarts: tree, supervision, watchdog, runtime, calls, executor, protoactor, mailbox
//   - triggers and signals: intake*, triggerlimit
//   - claims: claimer*, queuescan
//   - slots and executions: runs, ledger, run*, payloads, step, elements, wrap, attempt, inflight, outcome, failure
//   - completions: journal*
//   - slots that both reserve from the claimer: slotreservation, linger
//   - the lease: pulse*
//   - wakes, and waiters for the end of a run: feed*, waiters, endpoller
//   - the leader: leader*, timekeeper, housekeeper*, parked
//   - messages and store types: convert*, instants
//   - measures: recorder, metrics, gauges
package actors
