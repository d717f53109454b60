// Package persistence is the port between decisions and durable state.
//
// Every method that writes is one transaction over one whole batch. It can be
// asked again after an unknown outcome: a trigger is known by its run id, a
// claim by its claim id, a transition by its task and epoch, a decision of the
// leader by its epoch. It returns the database's time, the only authority for
// leases and timers.
//
// There are two adapters. Package memory is the model: the simplest correct
// code, and the store of simulations. Package postgres is the product. Package
// storetest holds the contract that both keep, and a differential test that
// sends both the same random operations and compares results and state.
//
// The ports are small and named after the actor that uses them: [Intake],
// [Queue], [Journal], [Lease], [Timekeeping], [Housekeeping], [Runs],
// [Reader], [Registry]. [Store] is all of them.
package persistence
