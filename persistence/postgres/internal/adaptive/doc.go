// Package adaptive remembers what spares statements: what runs in execution consist of,
// where queues are empty, of which claims all tasks have ended, and for which queues the
// statement for the usual case will do.
package adaptive
