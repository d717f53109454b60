package postgres

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/troupe-dev/troupe/cluster"
)

// SQLSTATEs that say why there is no stream.
const (
	stateInsufficientPrivilege  = "42501" // no REPLICATION
	stateConfigurationLimit     = "53400" // slots
	stateTooManyConnections     = "53300" // walsenders, or connections
	stateNotInPrerequisiteState = "55000" // wal_level, or no slots at all
	stateFeatureNotSupported    = "0A000" // decoding on a standby of PostgreSQL 15
	stateUndefinedObject        = "42704" // publication dropped while the stream is read
)

// unavailable is an error of the stream with what an operator can do about it.
func unavailable(remedy string, cause error) error {
	return &cluster.StreamError{Remedy: remedy, Cause: cause}
}

// classify turns an error of the stream's first steps into one that is
// ErrStreamUnavailable if the server refuses a stream; others are returned as
// they are: trying again soon may help.
func classify(err error) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refusesEverySession(refused) {
		return err
	}
	switch refused.Code {
	case stateInsufficientPrivilege:
		return unavailable("the role may not replicate; run: alter role … replication (managed services have a role to grant instead)", err)
	case stateConfigurationLimit:
		return unavailable("all replication slots are in use; raise max_replication_slots (a restart) or drop unused slots", err)
	case stateTooManyConnections:
		return unavailable("no connection is left for replication; raise max_wal_senders or max_connections (a restart)", err)
	case stateNotInPrerequisiteState:
		return unavailable("logical decoding is off; set wal_level = logical and max_replication_slots above 0 (a restart)", err)
	case stateFeatureNotSupported:
		return unavailable("the server cannot decode its log; connect to the primary", err)
	}
	return err
}

// refusesEverySession reports whether the server refuses the role or the database as
// such: no right to connect, no connections allowed, their limit. The SQLSTATEs are those
// of streams that are refused, the place in the server is another.
func refusesEverySession(refused *pgconn.PgError) bool {
	return refused.Routine == "CheckMyDatabase" || refused.Routine == "InitializeSessionUserId"
}

func (a *Adapter) unpublished(cause error) error {
	return unavailable(fmt.Sprintf("publication %q is missing; run the migrations", Publication(a.config.Schema)), cause)
}

func withoutLogical(level string) error {
	return unavailable(fmt.Sprintf("wal_level is %s; set wal_level = logical (a restart)", level), nil)
}

func blocked(cause error) error {
	return unavailable("the slot waits for a transaction that was writing before it; it is tried again later, "+
		"pg_stat_activity shows who has had one open for long (backend_xid, xact_start), and pg_prepared_xacts those that were prepared", cause)
}

// onceWarned warns at the first look only of what is looked at again and again.
type onceWarned struct {
	once sync.Once
	full atomic.Bool // the queue of notifications
	log  *slog.Logger
}

// fullQueue warns once for each time that pings are not heard because the server's
// queue of notifications is full.
func (w *onceWarned) fullQueue(full bool) {
	if w.full.Swap(full) != full && full {
		w.log.Warn("no pod hears the leader", slog.Any("error", errQueueFull))
	}
}

// unboundedSlots warns if a reader that hangs could fill the server's disk.
func (w *onceWarned) unboundedSlots(keepSize string) {
	if keepSize != "-1" {
		return
	}
	w.once.Do(func() {
		w.log.Warn("a replication slot may retain any amount of write-ahead log; set max_slot_wal_keep_size, to 10GB for example",
			slog.String("max_slot_wal_keep_size", keepSize))
	})
}
