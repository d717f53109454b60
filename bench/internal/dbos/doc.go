// Package dbos measures github.com/dbos-inc/dbos-transact-golang: workflow
// functions whose steps are checkpointed in PostgreSQL. A workflow runs in the
// calling process at once (setting direct), or through a queue that every
// worker polls.
//
// All steps of its graphs run in one process, in one tree of goroutines: it is
// a durable function, not a graph whose steps are handed out.
package dbos
