// Package bench measures the engine on a real PostgreSQL: how much it gets
// done, how soon it starts what was triggered, and what that costs the
// database.
//
// A measurement is repeated on a fresh database each time, and the median is
// what counts. Beside the engine a straightforward implementation, one
// transaction per transition, does the same work on the same server, so that a
// figure means something on an unknown machine.
//
// Everything is measured from outside, as an embedder would see it: the pods
// are troupe.Engines, and times are taken around calls of the API and inside
// step functions. The server and the pods share the machine's cores.
package bench
