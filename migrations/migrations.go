package migrations

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DefaultSchema is the schema that the engine uses unless told otherwise.
const DefaultSchema = "troupe"

// SchemaBytesMax bounds a schema's name: <schema>_wake is an identifier too,
// and PostgreSQL cuts those at 63 bytes.
const SchemaBytesMax = 63 - len("_wake")

// Errors that a caller can act on. Their texts, with what is wrapped around
// them, say what to do.
var (
	// ErrNewer: a newer version of troupe has migrated the schema.
	ErrNewer = errors.New("the schema is newer than this program")
	// ErrServer: this server or database cannot hold the tables.
	ErrServer = errors.New("unsuitable database")
	// ErrForeign: the schema has tables that are not troupe's.
	ErrForeign = errors.New("the schema belongs to something else")
)

//go:embed sql/*.sql
var files embed.FS

// Report says how a schema stands.
type Report struct {
	Schema      string
	Version     int      // of the schema; 0: nothing there yet
	Latest      int      // known to this program
	Applied     []string // by this call of Migrate
	Pending     []string // not applied
	Publication string   // "": there; else why it is missing and what would mend it
}

// migration is one numbered file.
type migration struct {
	version int
	name    string
	sql     string
}

// Migrate brings a schema to the latest version and returns how it stands
// afterwards. It takes one connection of pool.
func Migrate(ctx context.Context, pool *pgxpool.Pool, schema string) (Report, error) {
	var report Report
	err := withSession(ctx, pool, schema, func(s *session) error {
		if err := s.suitable(ctx); err != nil {
			return err
		}
		applied, err := s.apply(ctx)
		if err != nil {
			return err
		}
		problem := s.publish(ctx)
		if report, err = s.report(ctx); err != nil {
			return err
		}
		report.Applied, report.Publication = applied, cmp.Or(problem, report.Publication)
		return nil
	})
	if err != nil {
		return report, fmt.Errorf("migrate schema %s: %w", schema, err)
	}
	return report, nil
}

// Status returns how a schema stands. It changes nothing.
func Status(ctx context.Context, pool *pgxpool.Pool, schema string) (Report, error) {
	var report Report
	err := withSession(ctx, pool, schema, func(s *session) error {
		var err error
		report, err = s.report(ctx)
		return err
	})
	if err != nil {
		return report, fmt.Errorf("status of schema %s: %w", schema, err)
	}
	return report, nil
}

// session is one connection while it migrates one schema.
type session struct {
	conn       *pgx.Conn
	schema     string
	quoted     string
	migrations []migration
}

func withSession(ctx context.Context, pool *pgxpool.Pool, schema string, use func(*session) error) error {
	if schema == "" || len(schema) > SchemaBytesMax || strings.ContainsRune(schema, 0) {
		return fmt.Errorf("schema name: want 1 to %d bytes, got %q", SchemaBytesMax, schema)
	}
	migrations, err := load()
	if err != nil {
		return err
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	return use(&session{
		conn: conn.Conn(), schema: schema, quoted: pgx.Identifier{schema}.Sanitize(), migrations: migrations,
	})
}

// load reads the embedded files in the order of their numbers.
func load() ([]migration, error) {
	entries, err := fs.ReadDir(files, "sql")
	if err != nil {
		return nil, err
	}
	var all []migration
	for _, entry := range entries {
		number, _, ok := strings.Cut(entry.Name(), "_")
		version, err := strconv.Atoi(number)
		if !ok || err != nil {
			return nil, fmt.Errorf("migration %s: want a name like 0001_what.sql", entry.Name())
		}
		text, err := fs.ReadFile(files, "sql/"+entry.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, migration{version, strings.TrimSuffix(entry.Name(), ".sql"), string(text)})
	}
	slices.SortFunc(all, func(a, b migration) int { return cmp.Compare(a.version, b.version) })
	return all, nil
}

func (s *session) latest() int { return s.migrations[len(s.migrations)-1].version }

func (s *session) fill(sql string) string { return strings.ReplaceAll(sql, "{schema}", s.quoted) }

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

// step runs one transaction under the lock that keeps two migrations apart. A
// client that is killed leaves nothing behind: the server rolls back.
func (s *session) step(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	const settings = `set local search_path = pg_catalog; set local lock_timeout = '10s'`
	return pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, settings); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, s.lockKey()); err != nil {
			return fmt.Errorf("wait for another migration of this schema: %w", err)
		}
		return do(ctx, tx)
	})
}

func (s *session) lockKey() int64 {
	h := fnv.New64a()
	h.Write([]byte("troupe migrate\x00" + s.schema))
	return int64(h.Sum64())
}

// prepare makes the schema and the table of versions.
func (s *session) prepare(ctx context.Context, tx pgx.Tx) error {
	var schemaExists, versioned bool
	err := tx.QueryRow(ctx, `select to_regnamespace($1) is not null, to_regclass($2) is not null`,
		s.quoted, s.quoted+".schema_version").Scan(&schemaExists, &versioned)
	if err != nil || versioned {
		return err
	}
	if err := s.foreign(ctx, tx); err != nil {
		return err
	}
	if !schemaExists {
		_, err := tx.Exec(ctx, s.fill(`create schema {schema}`))
		if hasCode(err, "42501") {
			return fmt.Errorf("%w: this role may not create the schema %s: grant create on the database to it,"+
				" or create the schema with it as the owner", ErrServer, s.schema)
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
	return err
}

// foreign refuses a schema in which somebody else's tables are.
func (s *session) foreign(ctx context.Context, tx pgx.Tx) error {
	const query = `select relname from pg_class where relnamespace = to_regnamespace($1) and relkind in ('r', 'p', 'v', 'm', 'f', 'S')
		order by relname limit 1`
	var name string
	switch err := tx.QueryRow(ctx, query, s.quoted).Scan(&name); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: %s holds %q, which is not troupe's: name a schema of troupe's own", ErrForeign, s.schema, name)
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

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func (s *session) version(ctx context.Context, on querier) (int, error) {
	var version int
	err := on.QueryRow(ctx, s.fill(`select coalesce(max(version), 0) from {schema}.schema_version`)).Scan(&version)
	if err != nil {
		return 0, err
	}
	if version > s.latest() {
		return 0, fmt.Errorf("%w: it is at version %d, this program knows up to %d: upgrade the program"+
			" (nothing was changed; there is no way down)", ErrNewer, version, s.latest())
	}
	return version, nil
}

func (s *session) report(ctx context.Context) (Report, error) {
	r := Report{Schema: s.schema, Latest: s.latest()}
	var versioned bool
	err := s.conn.QueryRow(ctx, `select to_regclass($1) is not null`, s.quoted+".schema_version").Scan(&versioned)
	if err != nil {
		return r, err
	}
	if versioned {
		if r.Version, err = s.version(ctx, s.conn); err != nil {
			return r, err
		}
	}
	for _, m := range s.migrations {
		if m.version > r.Version {
			r.Pending = append(r.Pending, m.name)
		}
	}
	r.Publication, err = s.published(ctx)
	return r, err
}

func hasCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}
