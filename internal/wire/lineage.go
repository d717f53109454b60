package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
	"weak"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/troupe-dev/troupe/internal/clock"
)

// RefusedError says why a server that answers is refused.
type RefusedError struct{ text string }

// Error implements error.
func (e RefusedError) Error() string { return e.text }

var errReadOnly = RefusedError{"the server takes no writes (read only): connect to the primary, or turn default_transaction_read_only off for the database or the role"}

// Lineage remembers the newest timeline among the servers of one cluster that a process
// connects to. A former primary that comes back takes writes as well, and a process that uses
// both servers loses its own writes. Promoting a standby increments the timeline, see
// "Continuous Archiving" in the manual of PostgreSQL. A Lineage is safe for concurrent use;
// a nil one refuses no timeline.
type Lineage struct {
	clock clock.Clock

	mu       sync.Mutex
	system   string                                   // of the cluster; its primary and standbys share it
	timeline uint64                                   // the newest
	newest   []open                                   // connections to a server of that timeline
	alone    time.Time                                // since when there is no such connection; zero: there is one
	others   map[weak.Pointer[pgconn.PgConn]]standing // by connection of the embedder's
}

// standing identifies the server of a connection.
type standing struct {
	system   string
	timeline uint64 // 0: unknown
}

// open is a connection that may have been closed, or abandoned during connect.
type open struct {
	conn weak.Pointer[pgconn.PgConn]
	done <-chan struct{}
}

// lineageKept is how long a server of an older timeline is refused after the last connection
// to a newer one was closed. After that it may be a restored backup.
const lineageKept = 5 * time.Minute

// NewLineage returns a Lineage without a timeline.
func NewLineage() *Lineage { return &Lineage{clock: clock.System{}} }

// writable makes config refuse servers that take no writes, or have an older timeline. The
// check of config is called first.
func (l *Lineage) writable(config *pgx.ConnConfig) {
	own := config.ValidateConnect
	config.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		var taste *pgconn.NotPreferredError // pgx takes such a server if there is no other one
		if own != nil {
			if err := own(ctx, conn); err != nil && !errors.As(err, &taste) {
				return err
			}
		}
		if err := l.examine(ctx, conn); err != nil || taste == nil {
			return err
		}
		return taste // pgx compares its type and does not unwrap
	}
}

// examine returns why a server is refused, or adds the connection.
func (l *Lineage) examine(ctx context.Context, conn *pgconn.PgConn) error {
	if l == nil {
		return onlyWritable(ctx, conn)
	}
	writes, at, err := stand(ctx, conn)
	switch {
	case kept(err):
		return onlyWritable(ctx, conn)
	case err != nil:
		return err
	case !writes:
		return errReadOnly
	}
	return l.join(at, open{weak.Make(conn), conn.CleanupDone()})
}

// kept reports whether the role has no right on the functions that were called, or the server
// does not have them.
func kept(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && slices.Contains([]string{"42501", "42883", "0A000"}, refused.Code)
}

// stand returns the server of a connection, and whether it takes writes.
func stand(ctx context.Context, conn *pgconn.PgConn) (writes bool, at standing, err error) {
	// Not pg_control_checkpoint: it lags behind a promotion.
	row, err := ask(ctx, conn, `select current_setting('transaction_read_only'), (select system_identifier from pg_control_system()),
		case when not pg_is_in_recovery() then pg_walfile_name(pg_current_wal_lsn()) end`)
	if err != nil {
		return false, standing{}, err
	}
	const digits = 8 // of the timeline, which the name of a segment of the log begins with
	timeline, err := strconv.ParseUint(row[2][:min(digits, len(row[2]))], 16, 32)
	if err != nil {
		timeline = 0 // a standby, or another kind of server
	}
	return row[0] == "off", standing{row[1], timeline}, nil
}

// othersMax is how many connections are remembered before closed ones are removed.
const othersMax = 1000

// Admit returns why a connection of the embedder's must not be written to, or nil. The
// connection may be in a transaction. It is queried once.
func (l *Lineage) Admit(ctx context.Context, conn *pgconn.PgConn) error {
	if l == nil {
		return nil
	}
	key := weak.Make(conn)
	l.mu.Lock()
	at, known := l.others[key]
	nothing := l.system == ""
	l.mu.Unlock()
	switch {
	case nothing:
		return nil
	case !known:
		// A missing right would end the transaction.
		row, err := ask(ctx, conn, `select has_function_privilege('pg_control_system()', 'execute')
			and has_function_privilege('pg_current_wal_lsn()', 'execute') and has_function_privilege('pg_walfile_name(pg_lsn)', 'execute')`)
		if err == nil && row[0] == "t" {
			_, at, err = stand(ctx, conn)
		}
		if err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !known {
		if len(l.others) >= othersMax {
			maps.DeleteFunc(l.others, func(p weak.Pointer[pgconn.PgConn], _ standing) bool { return p.Value() == nil })
		}
		if l.others == nil {
			l.others = map[weak.Pointer[pgconn.PgConn]]standing{}
		}
		l.others[key] = at
	}
	return l.refuse(at)
}

func onlyWritable(ctx context.Context, conn *pgconn.PgConn) error {
	row, err := ask(ctx, conn, "show transaction_read_only")
	if err == nil && row[0] != "off" {
		return errReadOnly
	}
	return err
}

// ask returns the row that a query answers.
func ask(ctx context.Context, conn *pgconn.PgConn, sql string) (row []string, err error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return nil, errors.New("the server was asked whether it takes writes, and answered something else")
	}
	for _, value := range results[0].Rows[0] {
		row = append(row, string(value))
	}
	return row, nil
}

// join adds a connection, or returns why it is refused.
func (l *Lineage) join(at standing, conn open) error {
	if at.timeline == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refuse(at); err != nil {
		return err
	}
	if at.system != l.system || at.timeline != l.timeline {
		l.newest = nil
	}
	l.system, l.timeline, l.alone = at.system, at.timeline, time.Time{}
	l.newest = append(l.newest, conn)
	return nil
}

// refuse returns why a server must not be written to.
func (l *Lineage) refuse(at standing) error {
	l.newest = slices.DeleteFunc(l.newest, open.closed)
	older := at.timeline > 0 && at.system == l.system && at.timeline < l.timeline
	now := l.clock.Now()
	switch {
	case len(l.newest) > 0:
		l.alone = time.Time{}
	case l.alone.IsZero():
		l.alone = now
	case now.Sub(l.alone) >= lineageKept:
		return nil
	}
	if older {
		return outdated(at.timeline, l.timeline)
	}
	return nil
}

func outdated(timeline, newest uint64) error {
	return RefusedError{fmt.Sprintf("the server is of timeline %d, and another one of these addresses of timeline %d: it was the primary before."+
		" Stop it, or make it a standby of the other, so that no client writes to both", timeline, newest)}
}

func (o open) closed() bool {
	select {
	case <-o.done:
		return true
	default:
		return o.conn.Value() == nil
	}
}
