package chaos

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// F33: the pod that reads a slot is killed. The slot is temporary: it keeps no log.
func TestSlotIsAbandoned(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F33", Name: "slot-abandoned", Fault: "SIGKILL of a pod that reads a replication slot, then a lot of log",
		FullOnly: true, Must: "no slot is left without a reader",
		Allowed: []figure{within("slot gone after", 2*time.Second), none("MB retained by it"), atMost("MB retained by the others", 64, "MB")},
	})
	y, _ := newServerYard(r, 0, nil)
	pods := y.start("pod-1", "pod-2")
	y.streaming(pods...)
	owner := pods[0]
	if owner.name == y.leader() {
		owner = pods[1]
	}
	const mine = `select count(*)::int from pg_replication_slots where slot_name like '%\_' || $1::bigint || '\_%'`
	number := y.stats(owner).Pod
	require.Equal(r, 1, y.number(mine, number))
	owner.kill()
	r.took("slot gone after", y.until("the slot is gone", patience, func() bool { return y.number(mine, number) == 0 }))
	y.writeLog(spell(64, 1024))
	const retained = `select coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)) / 1048576, 0)::int from pg_replication_slots`
	r.count("MB retained by it", y.number(retained+` where slot_name like '%\_' || $1::bigint || '\_%'`, number))
	_, err := y.pool.Exec(r.Context(), "checkpoint") // it lets slots move on
	require.NoError(r, err)
	y.until("the others have read the log", patience, func() bool { return y.number(retained) <= 64 })
	r.count("MB retained by the others", y.number(retained))
	y.trigger(y.alive()[0], "diamond", 10)
	y.judge()
}

// F34: the server takes the slots away, because their readers are too slow.
func TestSlotIsLost(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F34", Name: "slot-lost", Fault: "the readers are frozen until max_slot_wal_keep_size=32MB has taken their slots",
		Must: "I1; an alert is raised, the slots are made again",
		Allowed: []figure{
			atLeast("slots lost", 1, ""), within("picked up after", time.Second), atLeast("alerts", 1, ""), within("read again after", 15*time.Second),
		},
	})
	server := pgtest.Server(r, map[string]string{"max_slot_wal_keep_size": "32MB", "max_wal_size": "64MB", "min_wal_size": "32MB"})
	url, err := server.CreateDatabase(r.Context(), "chaos")
	require.NoError(r, err)
	tune := brisk()
	tune.Pulse, tune.Lease = time.Second, 15*time.Second // frozen for longer than to lose a slot, not a lease
	y := newYardOn(r, url, tune, 0)
	pods := y.start("pod-1", "pod-2")
	y.streaming(pods...)
	for _, p := range pods {
		p.signal(syscall.SIGSTOP)
	}
	const slots = `select count(*)::int from pg_replication_slots where database = current_database()`
	before := y.number(slots)
	lost := 0
	y.until("the slots are lost", patience, func() bool {
		y.writeLog(32)
		_, err := y.pool.Exec(r.Context(), "checkpoint")
		require.NoError(r, err)
		lost = before - y.number(slots+" and wal_status <> 'lost'")
		return lost == before
	})
	for _, p := range pods {
		p.signal(syscall.SIGCONT)
	}
	began := time.Now()
	at := y.databaseNow()
	for range 20 {
		y.trigger(pods[0], "diamond", 1)
	}
	y.until("runs have ended", patience, func() bool { return y.number(openSQL) == 0 })
	r.count("slots lost", lost)
	r.took("picked up after", y.pickup(at))
	y.streaming(pods...)
	r.took("read again after", time.Since(began))
	r.count("alerts", y.logged("no replication stream"))
	y.judge()
}

// F35: there is no stream to be had, for one reason after the other.
func TestNoLogicalDecoding(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]struct {
		settings map[string]string
		role     string // attributes of the role that pods connect as; "": the owner
		says     string
	}{
		"wal-level":      {settings: map[string]string{"wal_level": "replica"}, says: "wal_level"},
		"no-senders":     {settings: map[string]string{"max_wal_senders": "0"}, says: "max_wal_senders"},
		"no-slots":       {settings: map[string]string{"max_replication_slots": "0"}, says: "max_replication_slots"},
		"no-replication": {role: "noreplication in role troupe", says: "alter role"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := begin(t, row{
				ID: "F35", Name: "no-logical-" + name, Fault: "the server gives no replication stream",
				Must: "starts, sweeps, says so with the remedy", FullOnly: name == "no-senders" || name == "no-slots",
				Allowed: []figure{within("picked up after", time.Second), atLeast("pods that say so", 1, "")},
			})
			server := pgtest.Server(r, why.settings)
			url, err := server.CreateDatabase(r.Context(), "chaos")
			require.NoError(r, err)
			y := newYardOn(r, url, brisk(), 0)
			y.url = y.roleWith(why.role, url)
			pods := y.start("pod-1", "pod-2", "pod-3")
			said := 0
			y.until("the leader says why", patience, func() bool {
				said = y.degraded(pods, why.says)
				return said > 0
			})
			at := y.databaseNow()
			for i := range 30 {
				y.trigger(pods[i%3], "diamond", 1)
			}
			y.until("runs have ended", patience, func() bool { return y.number(openSQL) == 0 })
			r.took("picked up after", y.pickup(at))
			r.count("pods that say so", said)
			y.judge()
		})
	}
}
