// Package clock is the port through which shells see local time.
//
// Local time serves local waits only: the next sweep, the backoff of an
// actor's restart, the grace period of a stop. Leases, timers and schedules
// are decided by the database's clock, which arrives as a value
// (docs/adr/0003).
//
// [System] is the one place of the module that calls time.Now and
// time.AfterFunc. [Manual] is the clock of tests: it moves only when told and
// fires in an order that two runs share, that of its [Agenda].
package clock
