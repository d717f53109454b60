// Package explain says why a run does not move.
//
// A Situation is what is known of a run, of the queues its steps wait in, of the
// pods that could execute them and of the holders of locks, at one instant of the
// database. Explain turns it into one reason for each step that has not ended,
// each with what mends it. Of a run that has ended it says which steps failed, or what
// canceled it. It is pure and total: whatever a Situation holds, no
// step is left without a reason. Stores read situations; see
// persistence.Situations.
package explain
