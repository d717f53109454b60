package bench

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// usage is what has been used up so far.
type usage struct {
	wal          int64         // bytes written
	transactions int64         // committed in this database
	own          time.Duration // CPU of this process; 0: not known
	machine      time.Duration // CPU of everything; 0: not known
}

const usageSQL = `select (pg_current_wal_insert_lsn() - '0/0')::bigint,
	(select xact_commit from pg_stat_database where datname = current_database())`

// readUsage reads counters. Sessions report their transactions when they end,
// if not before.
func readUsage(ctx context.Context, pool *pgxpool.Pool) (usage, error) {
	var u usage
	if err := pool.QueryRow(ctx, usageSQL).Scan(&u.wal, &u.transactions); err != nil {
		return u, err
	}
	u.own, u.machine = ownCPU(), machineCPU()
	return u, nil
}

// machineCPU returns what all processes have used, where /proc says.
func machineCPU() time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs on Linux
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var total time.Duration
	for i, word := range strings.Fields(line) {
		n, err := strconv.ParseInt(word, 10, 64)
		idle := i == 4 || i == 5 // cpu user nice system idle iowait irq softirq
		if err != nil || idle || i > 7 {
			continue
		}
		total += time.Duration(n) * tick
	}
	return total
}

// since returns what was used per task.
func (u usage) since(before usage, tasks float64) sample {
	own := u.own - before.own
	result := sample{
		walPerTask: float64(u.wal-before.wal) / tasks,
		txPerTask:  float64(u.transactions-before.transactions) / tasks,
		cpuPerTask: float64(own.Microseconds()) / tasks,
	}
	if u.machine > 0 {
		result[otherPerTask] = max(0, float64((u.machine-before.machine-own).Microseconds())/tasks)
	}
	return result
}
