// Package workflow is what users declare, without their types: definitions,
// steps, edges, conditions, retry policies and the ids of runs.
//
// It is pure: no clock, no randomness, no goroutine, no I/O. The root package
// builds a Definition from typed functions; [Definition.Validate] reports every
// problem at once, and [NewGraph] turns a valid one into the form that storage
// and decisions use. Two definitions with the same [Definition.Hash] are the
// same workflow; two steps with the same [Definition.Fingerprint] can execute
// each other's tasks.
package workflow
