package migrations

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// Spans that a leader of the version before has closed take what comes late after
// the migration, whatever the schema is called.
func TestClosedSpansTakeWhatComesLate(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{DefaultSchema, "select"} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			pool, err := pgxpool.New(ctx, pgtest.Database(t))
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			fill := func(sql string) string { return strings.ReplaceAll(sql, "{schema}", pgx.Identifier{schema}.Sanitize()) }
			require.NoError(t, withSession(ctx, pool, schema, func(s *session) error {
				at := slices.IndexFunc(s.migrations, func(m migration) bool { return m.name == "0010_clock_set_back" })
				require.Positive(t, at)
				s.migrations = s.migrations[:at]
				_, err := s.apply(ctx)
				return err
			}))
			exec := func(sql string) error {
				_, err := pool.Exec(ctx, fill(sql))
				return err
			}
			const late = "insert into {schema}.task_events (run_id, step, kind, n, at) values (gen_random_uuid(), -1, 35, 1, now())"
			require.NoError(t, exec("alter table {schema}.task_events_1 add constraint closed check (false) not valid"))
			require.ErrorContains(t, exec(late), "closed")
			_, err = Migrate(ctx, pool, schema)
			require.NoError(t, err)
			require.NoError(t, exec(late))
			var kept, left int
			require.NoError(t, pool.QueryRow(ctx, fill("select (select count(*) from {schema}.task_events_kept), (select count(*) from {schema}.task_events)")).
				Scan(&kept, &left))
			require.Equal(t, [2]int{1, 0}, [2]int{kept, left})
		})
	}
}
