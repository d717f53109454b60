package sessions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// IdleInTx is how long, in milliseconds, a session that holds locks of the engine's
// may be idle.
const IdleInTx = "2000"

// ofSession are those of every connection of the store's own pool,
// whatever the server, the database or the role say.
func ofSession() map[string]string {
	settings := Settings()
	maps.Copy(settings, map[string]string{
		// A frozen process keeps no locks.
		"idle_in_transaction_session_timeout": IdleInTx,
		// Nothing happens between two renewals.
		"idle_session_timeout": "0",
		// Statements mean the same everywhere.
		"timezone": "UTC", "datestyle": "ISO", "intervalstyle": "postgres",
		"default_transaction_isolation": "read committed", "standard_conforming_strings": "on",
	})
	return settings
}

// Settings are those that the store's statements need in whatever
// session they run.
func Settings() map[string]string {
	return map[string]string{
		// Plans must not depend on statistics, and the short statements of
		// batches must not be compiled: it divides throughput by fifty.
		"jit": "off", "plan_cache_mode": "force_generic_plan",
		"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off",
		// A probe per row meets each key once: a cache of them costs more than the probe.
		"enable_memoize": "off",
		// No statement waits for a lock for long.
		"lock_timeout": "1000", "statement_timeout": "30000",
		// A temporary table of the session's that is named as a type is not that type.
		"search_path": "pg_catalog, pg_temp",
		// What is sent and read is UTF-8, whatever a role is set to.
		"client_encoding": "UTF8",
		// Rows that a policy hides are not gone: an error says so.
		"row_security": "off",
	}
}

// prepareSession is done to each connection that no proxy is before.
func prepareSession(ctx context.Context, conn *pgx.Conn) error {
	return errors.Join(ReadInstants(ctx, conn), keepCommitsDurable(ctx, conn))
}

// keepCommitsDurable turns synchronous_commit on where it is off: an answer
// means that the commit survives a crash. Stricter settings stay.
func keepCommitsDurable(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `select set_config('synchronous_commit', 'on', false)
		where current_setting('synchronous_commit') = 'off'`)
	return err
}

// settling is the statement that makes the session's settings for the rest of a
// transaction.
func settling() string {
	settings := ofSession()
	calls := make([]string, 0, len(settings)+1)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		calls = append(calls, fmt.Sprintf("pg_catalog.set_config('%s', '%s', true)", name, settings[name]))
	}
	// As keepCommitsDurable: stricter settings stay.
	calls = append(calls, `pg_catalog.set_config('synchronous_commit', case pg_catalog.current_setting('synchronous_commit')
		when 'off' then 'on' else pg_catalog.current_setting('synchronous_commit') end, true)`)
	return "/* troupe settle */ select " + strings.Join(calls, ", ")
}
