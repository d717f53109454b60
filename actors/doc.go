// Package actors is the supervision tree of one pod.
//
// Every actor is a shell: it turns a message into values, lets a pure function
// decide, and sends the effects on. Each has a file of its own whose header
// says what it owns, who its parent is, what it accepts and sends, and what
// happens when it fails. The tree is one table in tree.go; the diagrams under
// docs/diagrams are printed from it and from the headers, and tests hold them
// equal to the code.
//
// # How an actor waits
//
// Receive never blocks. A store call or a step function runs on a goroutine of
// the [Executor]; what it returns comes back as an ordinary message with the
// number under which it was asked for. An answer to an older question is
// dropped. Timers are messages, too. So every wait of the engine is a message,
// and a simulation that delivers messages one by one sees all of its states.
//
// # What an actor trusts
//
// Every answer may be lost and every message may be late. A task is known by
// run, step and epoch; what carries an old epoch changes nothing. A run actor
// keeps the outcome of its attempt and sends it again until it is answered. A
// database that cannot be reached is never a failure of an actor: the same
// call is made again, with a growing delay.
//
// # What outlives a restart
//
// An actor that panicked starts from nothing, except for what its producer
// carries over: the claim or the batch whose outcome is unknown, triggers and
// cancels that callers wait for, who waits for the end of a run, the table of
// held tasks, the leader's term. It is asked for again under the same id, so
// that nothing is lost or doubled. A pod that was declared dead and joins again
// keeps what others wait for, and gives up the rest.
//
// # Leaving this package
//
// [Start] returns a [Pod], the one place where goroutines of the embedder meet
// actors.
//
// # Where things are
//
// By the names of files; a star is for whatever follows:
//
//   - the pod as the embedder sees it: start, config, pod*, boundary, lending, check, refusal, errors
//   - the tree and its restarts: tree, supervision, watched, runtime, executor, mailbox, protoactor
//   - triggers: intake*
//   - claims: claimer*, queuescan, unbegun
//   - slots and executions: runs, ledger, run*, payloads, step, attempt, working, broken, outcome, failure, errorclass
//   - completions: journal*
//   - what both ask the claimer for: slotreservation, gather
//   - the lease: pulse*
//   - wakes, and who waits for the end of a run: feed*, awaits, ends
//   - the leader: leader*, timekeeper, housekeeper*, leap
//   - what the database answers, and how soon: reach, refusals, pace
//   - messages and store types: convert
//   - measures: meter, metrics
package actors
