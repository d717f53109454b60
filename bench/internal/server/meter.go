package server

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Meter reads counters of one place, over a connection to another database, so
// that it does not count itself.
type Meter struct {
	place Place
	conn  *pgx.Conn
}

// NewMeter connects.
func NewMeter(ctx context.Context, p Place) (*Meter, error) {
	conn, err := pgx.Connect(ctx, p.Admin)
	return &Meter{place: p, conn: conn}, err
}

// Close gives the connection back.
func (m *Meter) Close(ctx context.Context) { _ = m.conn.Close(ctx) } // nothing is lost with it

// Usage is what has been used up so far.
type Usage struct {
	At           time.Time
	WAL          int64         // bytes, of the whole server
	Transactions int64         // committed and rolled back, in this database
	Statements   int64         // in this database; 0: they are not counted
	Server       time.Duration // CPU of the server; 0: not known
	Own          time.Duration // CPU of this process
}

const usageSQL = `select (pg_current_wal_insert_lsn() - '0/0')::bigint, pg_backend_pid(),
	(select xact_commit + xact_rollback from pg_stat_database where datname = $1)`

const statementsSQL = `select coalesce(sum(calls), 0)::bigint from pg_stat_statements s join pg_database d on d.oid = s.dbid where d.datname = $1`

// Read reads the counters. Sessions report their transactions when they end, or
// at most once a second.
func (m *Meter) Read(ctx context.Context) (Usage, error) {
	u := Usage{At: time.Now()}
	var session int
	if err := m.conn.QueryRow(ctx, usageSQL, m.place.Name).Scan(&u.WAL, &session, &u.Transactions); err != nil {
		return u, err
	}
	u.Server, u.Own = serverCPU(session), ownCPU()
	if !m.place.Statements {
		return u, nil
	}
	return u, m.conn.QueryRow(ctx, statementsSQL, m.place.Name).Scan(&u.Statements)
}

// Since returns what was used after before.
func (u Usage) Since(before Usage) Usage {
	return Usage{
		At: u.At, WAL: u.WAL - before.WAL, Transactions: u.Transactions - before.Transactions,
		Statements: u.Statements - before.Statements, Server: u.Server - before.Server, Own: u.Own - before.Own,
	}
}
