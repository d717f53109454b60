package migrations

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5"
)

// apply runs the migrations that are missing.
func (s *session) apply(ctx context.Context) ([]string, error) {
	var applied []string
	if err := s.step(ctx, s.prepare); err != nil {
		return nil, err
	}
	for _, m := range s.migrations {
		did := false
		err := s.step(ctx, func(ctx context.Context, tx pgx.Tx) error {
			var err error
			did, err = s.applyOne(ctx, tx, m)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", m.name, err)
		}
		if did {
			applied = append(applied, m.name)
		}
	}
	return applied, nil
}

const (
	// queueTimeout bounds the wait for another migration.
	queueTimeout = "10s"
	// lockTimeout bounds the wait for a table: sessions that come later wait behind
	// it.
	lockTimeout = "500ms"
	// lockTries is how often a table is tried to be locked, with lockPause
	// between two tries for the sessions that waited.
	lockTries = 20
	lockPause = "begin; set local statement_timeout = 0; select pg_catalog.pg_sleep(1); commit"
)

// step runs one transaction, again while another session locks a table that it needs.
func (s *session) step(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	for try := 1; ; try++ {
		err := s.stepOnce(ctx, do)
		if !errors.Is(err, errTableHeld) || try == lockTries {
			return err
		}
		if _, cause := s.conn.Exec(ctx, lockPause); cause != nil {
			return errors.Join(err, cause)
		}
	}
}

// errTableHeld: another session holds a lock on a table.
var errTableHeld = errors.New("another session holds a lock on a table")

// stepOnce runs one transaction under the lock that keeps two migrations apart. A
// client that is killed leaves nothing behind: the server rolls back. Read
// committed, so that a migration that waited for the lock sees what was done meanwhile.
func (s *session) stepOnce(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	const settings = `set local search_path = pg_catalog; set local statement_timeout = 0; set local lock_timeout = '` + queueTimeout + `'`
	return pgx.BeginTxFunc(ctx, s.conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, settings); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, s.lockKey()); err != nil {
			return fmt.Errorf("wait for another migration of this schema: %w", err)
		}
		if _, err := tx.Exec(ctx, `set local lock_timeout = '`+lockTimeout+`'`); err != nil {
			return err
		}
		err := do(ctx, tx)
		if hasCode(err, codeLockTimeout) {
			return fmt.Errorf("%w: %w", errTableHeld, err)
		}
		return err
	})
}

func (s *session) lockKey() int64 {
	h := fnv.New64a()
	h.Write([]byte("troupe migrate\x00" + s.schema))
	return int64(h.Sum64())
}

// prepare makes the schema and the table of versions.
func (s *session) prepare(ctx context.Context, tx pgx.Tx) error {
	if versioned, err := s.versioned(ctx, tx); err != nil || versioned {
		return err
	}
	if err := s.empty(ctx, tx); err != nil {
		return err
	}
	var exists bool
	err := tx.QueryRow(ctx, `select exists (select from pg_namespace where nspname = $1)`, s.schema).Scan(&exists)
	if err != nil {
		return err
	}
	if !exists {
		_, err := tx.Exec(ctx, s.fill(`create schema {schema}`))
		if hasCode(err, codeNoRight) {
			return fmt.Errorf("%w: %w: grant create on the database to it, or create the schema with it as the owner", ErrRights, err)
		}
		if err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, s.fill(`create table {schema}.schema_version (
		version    integer primary key,
		name       text not null,
		applied_at timestamptz not null default clock_timestamp()
	)`))
	if hasCode(err, codeNoRight) {
		return fmt.Errorf("%w: %w: make it the owner of the schema, or grant create on the schema to it", ErrRights, err)
	}
	return err
}

func (s *session) applyOne(ctx context.Context, tx pgx.Tx, m migration) (bool, error) {
	current, err := s.version(ctx, tx)
	if err != nil || current >= m.version {
		return false, err
	}
	if _, err := tx.Exec(ctx, s.fill(m.sql)); err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, s.fill(`insert into {schema}.schema_version (version, name) values ($1, $2)`), m.version, m.name)
	return err == nil, err
}
