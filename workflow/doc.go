// Package workflow is what users declare, without their types: definitions,
// steps, edges, conditions, retry policies and the ids of runs.
//
// It is pure: no clock, no randomness, no goroutine, no I/O. The root package
// builds a Definition from typed functions; [Definition.Validate] reports every
// problem at once, and [NewGraph] turns a valid one into the form that storage
// and decisions use. Two graphs with the same Hash are the same workflow; two
// nodes with the same Fingerprint can execute each other's tasks.
//
// # Where a rule lives
//
//   - what a name may be: name.go
//   - bounds of durations and retry policies: policy.go
//   - each step by itself and what it refers to: validate.go
//   - cycles, and the order of the steps: cycle.go
//   - steps that need two branches of one decision: contradiction.go
//   - how edges become one per pair: compile.go
//   - what two versions must have in common: hash.go
package workflow
