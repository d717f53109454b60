package chaos

import (
	"fmt"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
)

// goroutinesMore is how many goroutines a pod without work may have beyond
// those of its start: timers, a stream that it did not read then, and sessions
// that pgx is just closing.
const goroutinesMore = 16

const (
	sessionsSQL = `select count(*)::int from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
		and (application_name like 'troupe%' or application_name = 'chaos pod')`
	slotsSQL = `select count(*)::int from pg_replication_slots where database = current_database()`
	locksSQL = `select count(*)::int from pg_locks k join pg_database d on d.oid = k.database
		where k.locktype = 'advisory' and d.datname = current_database()`
)

// judgeResources checks that pods without work have no more goroutines than
// when they had started, and leave nothing on the server when they stop: no
// session, slot or lock.
func (y *yard) judgeResources() {
	y.t.Helper()
	for _, p := range y.alive() {
		y.awaitReady(p)
		var said string
		y.eventually(p.name+" is back to the goroutines of its start", func() bool {
			p.tell("goroutines")
			base, now := 0, 0
			said = y.hear(p, "goroutines")
			_, err := fmt.Sscanf(said, "goroutines %d %d", &base, &now)
			require.NoError(y.t, err)
			return now <= base+goroutinesMore
		})
		y.t.Logf("%s at its start and now: %s", p.name, said)
	}
	pods := y.alive()
	for _, p := range pods {
		p.signal(syscall.SIGTERM)
	}
	for _, p := range pods {
		y.awaitEnd(p)
		require.Equal(y.t, exitClean, p.command.ProcessState.ExitCode(), "%s stops in good order", p.name)
	}
	y.eventually("the server has no session of a pod", func() bool { return y.number(sessionsSQL) == 0 })
	y.eventually("the server has no replication slot", func() bool { return y.number(slotsSQL) == 0 })
	y.eventually("the server has no lock of a pod", func() bool { return y.number(locksSQL) == 0 })
}

// eventually is until, with all the patience there is.
func (y *yard) eventually(what string, holds func() bool) {
	y.t.Helper()
	y.until(what, patience, holds)
}

// awaitEnd waits until a pod's process has ended.
func (y *yard) awaitEnd(p *pod) {
	y.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for lines := p.lines; ; {
		select {
		case <-p.ended:
			return
		case _, open := <-lines: // no other reader is left
			if !open {
				lines = nil
			}
		case <-timer.C:
			y.t.Fatalf("%s has not ended in %v", p.name, patience)
		}
	}
}
