// Package messages holds what crosses the boundary of an actor: one .proto
// file per conversation, in the order in which it happens. Commands are
// imperative, facts and answers are past tense.
//
// Messages travel by pointer inside one process and are never marshalled. A
// message belongs to its receiver once it is sent. Messages about a task carry
// its run, step and epoch; instants are nanoseconds of Unix time, 0 for none.
//
// An embedder's own actors send [TriggerRun], [SendSignal], [CancelRun] and [AwaitRun] to
// the PID of an engine and are answered; everything else is internal.
// docs/diagrams/messages.md says who sends and who accepts what.
package messages
