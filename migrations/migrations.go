package migrations

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DefaultSchema is the schema that the engine uses unless told otherwise.
const DefaultSchema = "troupe"

// SchemaBytesMax bounds a schema's name: the names derived from it (publication,
// replication slot, channel) must fit into PostgreSQL's 63 bytes.
const SchemaBytesMax = 40

// schemaName is a name that replication slots may carry, and that needs no quotes
// in a tool.
var schemaName = regexp.MustCompile(fmt.Sprintf(`^[a-z_][a-z0-9_]{0,%d}$`, SchemaBytesMax-1))

// SchemaProblem returns why a schema cannot have this name and what to do, or two
// empty strings. All functions of this package and the engine follow this rule.
func SchemaProblem(schema string) (text, remedy string) {
	switch {
	case !schemaName.MatchString(schema):
		return fmt.Sprintf("%.300q is not a plain name", schema),
			fmt.Sprintf("use up to %d lower-case letters, digits and underscores", SchemaBytesMax)
	case strings.HasPrefix(schema, "pg_"):
		return fmt.Sprintf("is %q", schema), "use a name that does not begin with pg_: PostgreSQL keeps those"
	}
	return "", ""
}

// Errors that a caller can act on. Their texts, with what is wrapped around
// them, say what to do.
var (
	// ErrNewer: a newer version of troupe has migrated the schema.
	ErrNewer = errors.New("the schema is newer than this program")
	// ErrServer: this server or database cannot hold the tables.
	ErrServer = errors.New("unsuitable database")
	// ErrForeign: the schema has objects that are not troupe's.
	ErrForeign = errors.New("the schema belongs to something else")
	// ErrRenamed: the tables are in another schema, which was renamed.
	ErrRenamed = errors.New("the schema was renamed")
	// ErrBehind: the schema lacks migrations that this program needs.
	ErrBehind = errors.New("the schema is not up to date")
	// ErrRights: the role lacks a right on the database or the schema.
	ErrRights = errors.New("the role lacks a right")
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
// afterwards. It takes one connection of pool. The name of a schema is plain: up to
// 40 lower-case letters, digits and underscores, not a digit or pg_ first.
func Migrate(ctx context.Context, pool *pgxpool.Pool, schema string) (Report, error) {
	var report Report
	err := withSession(ctx, pool, schema, func(s *session) error {
		if err := s.look(ctx, s.suitable); err != nil {
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

// Check returns why an engine cannot work on the schema, with the remedy, or
// nil. It changes nothing.
func Check(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	err := withSession(ctx, pool, schema, func(s *session) error {
		if err := s.look(ctx, s.suitable); err != nil {
			return err
		}
		report, err := s.report(ctx)
		if err != nil || report.Version == report.Latest {
			return err
		}
		return fmt.Errorf("%w: it is at version %d, this program needs %d: run `troupe migrate up` or migrations.Migrate first",
			ErrBehind, report.Version, report.Latest)
	})
	if err != nil {
		return fmt.Errorf("check schema %s: %w", schema, err)
	}
	return nil
}

// session is one connection while it migrates one schema.
type session struct {
	conn       *pgx.Conn
	schema     string
	quoted     string
	migrations []migration
}

func withSession(ctx context.Context, pool *pgxpool.Pool, schema string, use func(*session) error) error {
	if text, remedy := SchemaProblem(schema); text != "" {
		return fmt.Errorf("schema %s: %s", text, remedy)
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
	return advise(use(&session{
		conn: conn.Conn(), schema: schema, quoted: pgx.Identifier{schema}.Sanitize(), migrations: migrations,
	}))
}

// advise adds the remedy to errors of the server that any statement may meet.
func advise(err error) error {
	switch {
	case err == nil || errors.Is(err, ErrRights):
		return err
	case hasCode(err, codeNoRight):
		return fmt.Errorf("%w: %w: use the role that owns the schema,"+
			" or grant this one usage on the schema and all rights on its tables and sequences", ErrRights, err)
	case hasCode(err, codeLockTimeout):
		return fmt.Errorf("%w: another session holds a lock for longer than %s, or a table all the time: end its transaction"+
			" (pg_stat_activity shows it) and try again; what was finished stays", err, queueTimeout)
	case hasCode(err, codeCanceled):
		return fmt.Errorf("%w: it was canceled, or the statement_timeout of this role, database or address is too short"+
			" for a look at the schema: raise it (alter role … set statement_timeout) and try again", err)
	}
	return err
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

// version returns the schema's version; 0 means that it has none yet, and no foreign
// objects.
func (s *session) version(ctx context.Context, tx pgx.Tx) (int, error) {
	ours, err := s.versioned(ctx, tx)
	if err != nil {
		return 0, err
	}
	if !ours {
		return 0, s.empty(ctx, tx)
	}
	var version int
	err = tx.QueryRow(ctx, s.fill(`select coalesce(max(version), 0) from {schema}.schema_version`)).Scan(&version)
	if err != nil {
		return 0, err
	}
	if version > s.latest() {
		return 0, fmt.Errorf("%w: it is at version %d, this program knows up to %d: upgrade the program"+
			" (nothing was changed; there is no way down)", ErrNewer, version, s.latest())
	}
	return version, nil
}

// versioned reports whether the schema has the table of versions. Other
// programs have one of that name, too: such a schema is theirs.
func (s *session) versioned(ctx context.Context, tx pgx.Tx) (bool, error) {
	const query = `select count(*), count(*) filter (where (attname, atttypid) in
			(('version', 'integer'::regtype), ('name', 'text'::regtype), ('applied_at', 'timestamptz'::regtype)))
		from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
		where n.nspname = $1 and c.relname = 'schema_version' and a.attnum > 0 and not a.attisdropped`
	var columns, ours int
	if err := tx.QueryRow(ctx, query, s.schema).Scan(&columns, &ours); err != nil {
		return false, err
	}
	if columns > 0 && ours != 3 {
		return false, s.refuse("schema_version")
	}
	return columns > 0, nil
}

func (s *session) refuse(name string) error {
	return fmt.Errorf("%w: %s holds %q, which is not troupe's: name a schema of troupe's own", ErrForeign, s.schema, name)
}

// look runs reads in one transaction that names nothing but by the catalog. It waits for
// a lock no longer than a migration waits for another one.
func (s *session) look(ctx context.Context, read func(context.Context, pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `set local search_path = pg_catalog; set local lock_timeout = '`+queueTimeout+`'`); err != nil {
			return err
		}
		return read(ctx, tx)
	})
}

func (s *session) report(ctx context.Context) (Report, error) {
	r := Report{Schema: s.schema, Latest: s.latest()}
	err := s.look(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if r.Version, err = s.version(ctx, tx); err != nil {
			return err
		}
		for _, m := range s.migrations {
			if m.version > r.Version {
				r.Pending = append(r.Pending, m.name)
			}
		}
		r.Publication, err = s.published(ctx, tx)
		return err
	})
	return r, err
}

// SQLSTATE codes that have a remedy of their own.
const (
	codeNoRight     = "42501"
	codeNoRole      = "42704"
	codeLockTimeout = "55P03"
	codeCanceled    = "57014"
)

func hasCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}
