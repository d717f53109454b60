package chaos

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// F21, F23: the server stops as if it crashed while the leader is in the middle of
// taking over what a dead pod held. The next leader does it once.
func TestRestartInterruptsATakeover(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F21 F23", Name: "restart-in-takeover", Fault: "pg_ctl stop -m immediate, and start, while the leader takes over the tasks of a dead pod",
		Must: "I1 I3 I4; the takeover takes place, once",
		Allowed: []figure{
			none("tasks taken before that"), within("taken over after the server answers", 5*time.Second),
			none("tasks taken twice or not"), none("re-executed beyond what it held"),
		},
	})
	y, server := newServerYard(r, 0, nil)
	pods := y.start("pod-1", "pod-2", "pod-3")
	slots := len(pods) * y.tune.Slots
	ids := y.trigger(pods[0], "hold", slots)
	y.eventually("every slot holds a task", func() bool { return count(readLedgers(r, y.dir), "begun") == slots })
	y.eventually("a pod leads", func() bool { return y.leader() != "" })
	holders, leader := y.holders(ids), y.leader()
	victim := pods[slices.IndexFunc(pods, func(p *pod) bool { return p.name != leader })]
	held := holders[victim.name]
	require.NotEmpty(r, held)
	postmaster := y.postmaster()

	// The leader that takes the tasks over waits for one of their runs, its pod declared dead.
	blocker, err := pgx.Connect(r.Context(), y.url)
	require.NoError(r, err)
	defer func() { _ = blocker.Close(r.Context()) }() // it ends with the server
	_, err = blocker.Exec(r.Context(), "begin; select from troupe.workflow_runs where id = '"+held[0]+"' for update")
	require.NoError(r, err)
	victim.kill()
	const inside = `select count(*)::int from pg_locks l join pg_stat_activity a using (pid)
		where not l.granted and a.application_name like 'troupe%' and $1 = any(pg_blocking_pids(l.pid))`
	y.eventually("the takeover is under way", func() bool { return y.number(inside, int(blocker.PgConn().PID())) > 0 })
	require.NoError(r, syscall.Kill(postmaster, syscall.SIGQUIT)) // what pg_ctl stop -m immediate sends
	y.until("the server has ended", patience, func() bool { return syscall.Kill(postmaster, 0) != nil })
	require.NoError(r, server.Restart(r.Context()))
	at := y.databaseNow()
	const taken = `select count(*)::int from troupe.every_event where kind = 'lost'`
	r.count("tasks taken before that", y.number(taken+` and at < $1`, at))
	y.eventually("all is taken over", func() bool { return y.number(taken) >= len(held) })
	after := y.number(`select (extract(epoch from max(at) - $1) * 1000)::int from troupe.every_event where kind = 'lost'`, at)
	r.took("taken over after the server answers", time.Duration(after)*time.Millisecond)
	for _, p := range pods {
		y.letGo(p.name)
	}
	v := y.judge()
	r.count("tasks taken twice or not", v.losses-len(held))
	// A restart that outlasts a lease has its pod hand its tasks back.
	r.count("re-executed beyond what it held", v.executions-slots-len(held)-v.released)
}
