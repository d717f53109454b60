package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// A slot of an engine's stream that is behind catches up: doctor does not tell to drop it.
func TestFindingsOfAnEnginesSlot(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, map[string]string{"wal_level": "logical", "max_slot_wal_keep_size": "1GB"})
	address, err := server.CreateDatabase(t.Context(), "behind")
	require.NoError(t, err)
	c := open(t, address)
	c.hold("select pg_create_logical_replication_slot('troupe_0123abcd_7_89abcdef', 'pgoutput', true)")
	c.exec("create table filler as select repeat('x', 1000) from generate_series(1, 3000)")
	options := Options{limits: usual()}
	options.limits.retained = 1 << 20
	report := c.examine(options)
	finds(t, report, "slots", Warning, "slot troupe_0123abcd_7_89abcdef, of an engine's stream of wakes, is ", "MB behind: a large transaction", "catches up by itself")
	for _, f := range report.Findings {
		require.NotContains(t, f.Remedy, "pg_drop_replication_slot")
	}
}

// Notifications stay in their queue while a listening session is in a transaction.
func TestFindingsOfNotifications(t *testing.T) {
	t.Parallel()
	all, own := ordinary(t)
	options := Options{limits: usual()}
	options.limits.filling, options.limits.touched = 1e-9, time.Nanosecond
	all.hold("listen anything; commit; begin; select 1")
	all.exec("select pg_notify('anything', repeat('x', 7000)) from generate_series(1, 9) n") // the same is told once
	all.exec("select pg_notify('anything', n || repeat('x', 7000)) from generate_series(1, 9) n")
	finds(t, all.examine(options), "notifications", Warning, "of the queue of notifications are used", "in a transaction for long are pid ", "in database ordinary", "tries again by itself")
	finds(t, own.examine(options), "notifications", Warning, "pid ", "in database ordinary, for a time that is hidden")
	options.limits.full = 1e-9
	finds(t, all.examine(options), "notifications", Problem, "of the queue of notifications are used")
}
