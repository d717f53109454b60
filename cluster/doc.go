// Package cluster holds what several pods on one database need of each other:
// the ports of leader election and of the wake feed, and the pure decisions
// about them. Pods never talk over the network; all of it goes through
// PostgreSQL, and the adapter is the package postgres below this one.
//
// Truth is in the tables. A wake is a hint that may be lost, late or doubled,
// and every reader of hints sweeps the tables now and then:
//
//   - a pod wakes itself at once for what its own transactions made ready
//   - with one or two pods each reads the replication stream itself
//   - beyond that the leader reads it and relays coalesced notifications
//   - without logical replication writers notify after their commit, and the
//     sweep is shorter
//
// The leader's ping carries its epoch, the mode and a count of relayed wakes,
// so that a pod that missed some sweeps once.
package cluster
