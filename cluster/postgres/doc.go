// Package postgres is the cluster room's adapter to PostgreSQL: it hears and
// sends notifications, reads the replication stream and elects the leader.
//
// Everything long-lived here has a connection of its own beside the engine's
// pool: the listener, the stream and the leader's session. With a pooling
// proxy in front of the pool they need [Config].DirectURL, because a lock, a
// LISTEN and a replication slot belong to one session.
//
// Names carry the schema, so that two schemas of one database never meet: the
// channel and the prefix of logical messages ([Channel]), the publication
// ([Publication]), the slots and the key of the election's lock.
//
// # What each connection does when things go wrong
//
//   - The listener notices a vanished server by TCP keepalives. It sends
//     nothing while it listens.
//   - The stream's slot is temporary: the server drops it with the session. A
//     slot whose creation has to wait for another session's open write transaction
//     is given up after two seconds. The stream says each second that it is read,
//     and asks for an answer, so that both sides notice the other's death within
//     about ten. Every half minute, or each second if that is much, it lets
//     the server go of what was read, or WAL would pile up, unless the server would
//     take that for the word of a synchronous standby.
//   - The leader's session ends when the leader does not ping for three
//     seconds (idle_session_timeout), which frees the lock when the leader is
//     frozen or its host is gone. Nothing else does.
//
// PostgreSQL sends a commit to the stream once it is on disk, which is a moment
// before other sessions see it, and longer before it with synchronous standbys.
// The stream therefore checks, once for each batch, whether it can be seen, and
// only then wakes pods: a pod that looked too early would find nothing and not
// look again before the next sweep.
package postgres
