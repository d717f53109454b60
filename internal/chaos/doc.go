// Package chaos is tests only: the whole engine on a real PostgreSQL, in pods
// that are processes of their own, under load, while things are killed, frozen
// and cut off.
//
// The test binary is the pod, too: it starts itself with the description of a
// pod in its environment. Pods trigger runs of several shapes all the time and
// wait for their ends. What step functions do is written to files, outside of
// PostgreSQL: the ledger. After each test the ledger, the history and the
// tables must agree, and nothing that a caller was told may be missing.
//
// `go test` runs each fault for a few seconds; `make chaos` for longer, and
// prints what was measured.
package chaos
