package migrations

import (
	"context"
	"fmt"
)

const serverMin = 150000 // PostgreSQL 15: column lists and row filters of publications

// suitable refuses servers and databases that cannot hold the tables, and says
// what to do.
func (s *session) suitable(ctx context.Context) error {
	const query = `select current_setting('server_version_num')::int, current_setting('server_version'),
		current_setting('server_encoding'), pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', current_database()`
	var (
		number                      int
		version, encoding, database string
		standby, readOnly           bool
	)
	err := s.conn.QueryRow(ctx, query).Scan(&number, &version, &encoding, &standby, &readOnly, &database)
	switch {
	case err != nil:
		return err
	case number < serverMin:
		return fmt.Errorf("%w: PostgreSQL %s is too old: upgrade the server to 15 or newer", ErrServer, version)
	case encoding == "SQL_ASCII":
		return fmt.Errorf("%w: the encoding of database %s is SQL_ASCII, which stores any bytes as text:"+
			" use a database created with encoding 'UTF8'", ErrServer, database)
	case standby:
		return fmt.Errorf("%w: this server is a hot standby: connect to the primary"+
			" (target_session_attrs=read-write finds it)", ErrServer)
	case readOnly:
		return fmt.Errorf("%w: transactions are read-only here: turn default_transaction_read_only off"+
			" for this role and database, or connect to the primary", ErrServer)
	}
	return nil
}
