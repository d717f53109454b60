package migrations

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const serverMin = 150000 // PostgreSQL 15: column lists and row filters of publications

// host is a server and a database on it, as one transaction finds them.
type host struct {
	number                      int // server_version_num
	version, encoding, database string
	standby, readOnly           bool
}

// suitable refuses servers and databases that cannot hold the tables.
func (s *session) suitable(ctx context.Context, tx pgx.Tx) error {
	const query = `select current_setting('server_version_num')::int, current_setting('server_version'),
		current_setting('server_encoding'), current_database(), pg_is_in_recovery(), current_setting('transaction_read_only') = 'on'`
	var h host
	err := tx.QueryRow(ctx, query).Scan(&h.number, &h.version, &h.encoding, &h.database, &h.standby, &h.readOnly)
	if err != nil {
		return err
	}
	return h.problem()
}

// problem says why the host cannot hold the tables, and what to do.
func (h host) problem() error {
	switch {
	case h.number < serverMin:
		return fmt.Errorf("%w: PostgreSQL %s is too old: upgrade the server to 15 or newer", ErrServer, h.version)
	case h.encoding == "SQL_ASCII":
		return fmt.Errorf("%w: the encoding of database %s is SQL_ASCII, which stores any bytes as text:"+
			" use a database created with encoding 'UTF8'", ErrServer, h.database)
	case h.standby:
		return fmt.Errorf("%w: this server is a hot standby: connect to the primary"+
			" (target_session_attrs=read-write finds it)", ErrServer)
	case h.readOnly:
		return fmt.Errorf("%w: transactions are read-only here: turn default_transaction_read_only off"+
			" for this role and database, or connect to the primary", ErrServer)
	}
	return nil
}
