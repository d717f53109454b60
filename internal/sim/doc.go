// Package sim runs whole clusters on one goroutine, in virtual time: the real
// actors, decisions and memory store, behind ports that it can make fail.
//
// A [World] is one database with pods on it. Every mailbox is a queue of the
// world, which delivers one message at a time; a seeded scheduler chooses the
// mailbox. Every wait is a timer of the world, and the clock moves to the
// next one only when nothing can run. Store calls, step functions, wakes and
// elections are events of the world too, so that each can be late, lost,
// doubled or answered by an error; pods can crash between any two messages, be
// frozen, and disagree about the time.
//
// The same seed and options give the same history, byte for byte. What goes
// wrong is drawn by site (what, and where) and not from one stream of random
// numbers: leaving one fault out does not change the others, and a failing
// history shrinks to the few that matter.
//
// The ideas are those of FoundationDB's simulator (buggify, swizzling), of
// TigerBeetle's VOPR (safety first, then liveness) and of swarm testing (Groce
// et al., ISSTA 2012: leave whole classes of faults out, at random).
package sim
