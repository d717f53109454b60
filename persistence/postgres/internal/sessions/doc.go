// Package sessions is how the store reaches the server: connections of its own,
// apart from the embedder's, with settings of their own.
//
// A Pool serves what the engine does, and CallerSlots bound what callers may use of it.
// A Lease is the one connection that renews the pod's lease, which nothing that the
// pool is busy with delays; a Line is such a connection through a proxy. Where a
// server has no connection to give, the pool lends and gives away what it has.
//
// Sessions do without JIT, hash joins and custom plans, and give up locks within
// seconds when they are frozen; none of it depends on the database's or the role's
// settings.
package sessions
