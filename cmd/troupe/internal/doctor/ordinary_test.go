package doctor

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// ordinary returns a database as its superuser sees it, and as a role that owns the
// schema and may do what an engine needs.
func ordinary(t *testing.T) (all, own *clinic) {
	t.Helper()
	server := pgtest.Server(t, map[string]string{"wal_level": "logical", "max_slot_wal_keep_size": "1GB"})
	address, err := server.CreateDatabase(t.Context(), "ordinary")
	require.NoError(t, err)
	all = open(t, address)
	all.exec(`create role pod login replication password 'pod'; alter schema troupe owner to pod;
		grant all on all tables in schema troupe to pod; grant all on all sequences in schema troupe to pod`)
	as, err := url.Parse(address)
	require.NoError(t, err)
	as.User = url.UserPassword("pod", "pod")
	pool, err := pgxpool.New(t.Context(), as.String())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return all, &clinic{t, pool, as.String()}
}

// What other roles' sessions do is hidden from an ordinary role; what they hold is not.
func TestFindingsOfAnOrdinaryRole(t *testing.T) {
	t.Parallel()
	all, own := ordinary(t)
	options := Options{limits: usual()}
	options.limits.hidden = 1
	finds(t, own.examine(options), "visibility", Warning, "of another role in this database", "grant pg_read_all_stats to pod")
	used := func(r Report) string {
		return r.Facts[1]
	}
	_ = all.examine(options) // opens its connections
	require.Contains(t, used(own.examine(options)), "connections are in use")
	require.Equal(t, used(all.examine(options)), used(own.examine(options)))

	all.hold("select from troupe.ready_queue for update")
	finds(t, own.examine(options), "locks", Warning, "pid ", "may hold rows of ready_queue for a time that is hidden", "a statement that this role may not see")
	all.hold("insert into troupe.tenants values ('x', 7)")
	for range 3 {
		all.exec("create table public.later (); drop table public.later")
	}
	finds(t, own.examine(options), "vacuum", Warning, "is open for the last ", "transactions and keeps vacuum from removing rows", "state hidden")

	all.hold("lock table troupe.dead_inputs in access exclusive mode")
	go func() { _, _ = all.pool.Exec(t.Context(), "select from troupe.dead_inputs") }()
	require.Eventually(t, func() bool {
		for _, f := range own.examine(options).Findings {
			if f.Check == "locks" && f.Level == Problem && strings.Contains(f.Text, "1 session waits for: a statement that this role may not see") {
				return true
			}
		}
		return false
	}, 30*time.Second, 10*time.Millisecond)

	all.exec("grant pg_read_all_stats to pod")
	options.limits.touched = time.Nanosecond
	report := own.examine(options)
	finds(t, report, "locks", Warning, "begin; select from troupe.ready_queue for update")
	for _, f := range report.Findings {
		require.NotEqual(t, "visibility", f.Check)
	}
}
