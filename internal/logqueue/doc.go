// Package logqueue stands between the engine and the embedder's log handler,
// which may be slow, hang or panic: stdout is a pipe in most deployments, and a
// collector that is stuck blocks its writers. Actors must not wait for
// that, so a [Queue] takes their records without blocking and hands them to the
// handler one after the other, in their order, on a goroutine of its own.
//
// The goroutine lives while records wait (docs/adr/0008): there is nothing to
// close, and an idle queue costs nothing. [Queue.Flush] waits until
// it has ended. A handler that never returns keeps it.
//
// A queue that is full drops what comes next and counts it, until half of what
// waits is written. One line at the place of the gap says how many there were.
package logqueue
