package testbed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what has been used up so far.
type Usage struct {
	WAL          int64         // bytes written by the server
	Transactions int64         // committed in this database
	Own          time.Duration // CPU of this process; 0: not known
	Server       time.Duration // CPU of the server; 0: not known
}

const usageSQL = `select (pg_current_wal_insert_lsn() - '0/0')::bigint,
	(select xact_commit from pg_stat_database where datname = current_database()), pg_backend_pid()`

// Usage reads counters. Sessions report their transactions when they end, if
// not before.
func (b *Bed) Usage(ctx context.Context) (Usage, error) {
	var u Usage
	var session int
	if err := b.Pool.QueryRow(ctx, usageSQL).Scan(&u.WAL, &u.Transactions, &session); err != nil {
		return u, err
	}
	u.Own = OwnCPU()
	if b.Server.Private {
		u.Server = serverCPU(session)
	}
	return u, nil
}

// Since returns what was used after an earlier reading.
func (u Usage) Since(before Usage) Usage {
	return Usage{u.WAL - before.WAL, u.Transactions - before.Transactions, u.Own - before.Own, u.Server - before.Server}
}

// serverCPU returns what the processes of the server have used, where /proc
// says: that is, on Linux, if the server is on this machine. The parent of a
// session's process is the postmaster, which has waited for all that ended.
func serverCPU(session int) time.Duration {
	postmaster := processTimes(session).parent
	if postmaster <= 1 {
		return 0
	}
	main := processTimes(postmaster)
	total := main.own + main.ended
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0
	}
	for _, path := range processes {
		id, err := strconv.Atoi(filepath.Base(path))
		if p := processTimes(id); err == nil && p.parent == postmaster {
			total += p.own
		}
	}
	return total
}

// process is what /proc says about one; zero: nothing.
type process struct {
	parent     int
	own, ended time.Duration // CPU of itself, and of children that it waited for
}

func processTimes(id int) process {
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs on Linux
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return process{}
	}
	// The name, in parentheses, may contain anything.
	words := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const parent, user, system, endedUser, endedSystem = 1, 11, 12, 13, 14
	if len(words) <= endedSystem {
		return process{}
	}
	number := func(at int) int64 {
		n, err := strconv.ParseInt(words[at], 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return process{
		parent: int(number(parent)),
		own:    time.Duration(number(user)+number(system)) * tick,
		ended:  time.Duration(number(endedUser)+number(endedSystem)) * tick,
	}
}
