// Package adaptive remembers what spares statements: what runs in execution consist of,
// where queues are empty, and for which queues the statement for the usual case will do.
package adaptive
