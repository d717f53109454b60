// Package demo is the main job on real input: it counts a tree of Go source,
// one run per package, on three pods that are processes of their own, kills
// one of them half-way, and checks the result.
//
// The parent process holds no pod. It starts a PostgreSQL and the pods, tells
// the pods over their standard input what to trigger, looks at the tables
// while they work, and compares what they counted with a straight loop over
// the same files. What it says about losses and double completions it reads
// from the history in the database and from the ledgers, in which every step
// function wrote down that it ran.
package demo
