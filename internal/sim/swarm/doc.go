// Package swarm runs the engine through seeds: each a cluster, a load and a set
// of faults of its own, drawn from the seed. It looks for broken promises
// (I1 to I21) after every transaction and at the end of every seed.
//
// A seed has two phases, as in TigerBeetle's VOPR. In the first, faults happen
// and nothing wrong may ever be seen (safety). Then all faults end, and
// everything that was triggered must come to its end within a bound, with
// nothing left behind (liveness).
package swarm
