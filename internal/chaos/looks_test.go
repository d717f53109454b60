package chaos

import (
	"net/url"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// streaming waits until pods read replication streams.
func (y *yard) streaming(pods ...*pod) {
	y.t.Helper()
	y.until("pods read streams", patience, func() bool {
		for _, p := range pods {
			if y.stats(p).Mode != "stream" {
				return false
			}
		}
		return true
	})
}

// degraded counts the pods that say that something is degraded for a reason.
func (y *yard) degraded(pods []*pod, reason string) int {
	y.t.Helper()
	n := 0
	for _, p := range pods {
		if strings.Contains(y.stats(p).Degraded, reason) {
			n++
		}
	}
	return n
}

// pickup is how long a task waited at most between being ready and being
// started, of those that were ready since.
func (y *yard) pickup(since time.Time) time.Duration {
	y.t.Helper()
	const query = `select coalesce(max(extract(epoch from started.at - queued.at) * 1000), 0)::int
		from troupe.every_event queued
		join troupe.every_event started on started.run_id = queued.run_id and started.step = queued.step and started.n = queued.n + 1
		where queued.kind = 'queued' and started.kind = 'started' and queued.at >= $1`
	return time.Duration(y.number(query, since)) * time.Millisecond
}

// writeLog makes the server write so many megabytes of log.
func (y *yard) writeLog(megabytes int) {
	y.t.Helper()
	_, err := y.pool.Exec(y.t.Context(), "create table if not exists public.filler (x text)")
	require.NoError(y.t, err)
	start := y.number(`select ((pg_current_wal_lsn() - '0/0') / 1048576)::int`)
	for y.number(`select ((pg_current_wal_lsn() - '0/0') / 1048576)::int`) < start+megabytes {
		_, err := y.pool.Exec(y.t.Context(), "insert into public.filler select repeat(n::text, 200) from generate_series(1, 20000) n")
		require.NoError(y.t, err)
		_, err = y.pool.Exec(y.t.Context(), "truncate public.filler")
		require.NoError(y.t, err)
	}
}

// roleWith returns the address for a role with attributes; "": the address as it is.
func (y *yard) roleWith(attributes, address string) string {
	y.t.Helper()
	if attributes == "" {
		return address
	}
	_, err := y.pool.Exec(y.t.Context(), "create role plain login password 'plain' "+attributes)
	require.NoError(y.t, err)
	target, err := url.Parse(address)
	require.NoError(y.t, err)
	target.User = url.UserPassword("plain", "plain")
	return target.String()
}
