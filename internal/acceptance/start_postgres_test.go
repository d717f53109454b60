package acceptance

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cluster"
	clusterpg "github.com/troupe-dev/troupe/cluster/postgres"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

// B39 through the engine: a database that it cannot work on is refused at the
// start, with the remedy.

func poolOf(t *testing.T, address string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// starting returns an engine that has one workflow, and its handle.
func starting(t *testing.T, pool *pgxpool.Pool, config troupe.Config) (*troupe.Engine, *troupe.Handle[string, int]) {
	t.Helper()
	engine, err := troupe.New(pool, config)
	require.NoError(t, err)
	handle, err := troupe.Register(engine, single(number))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })
	return engine, handle
}

func migrate(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
}

// as returns an address with the credentials of a role, which it creates.
func as(t *testing.T, pool *pgxpool.Pool, address, attributes string) string {
	t.Helper()
	target, err := url.Parse(address)
	require.NoError(t, err)
	role := "r_" + strings.TrimPrefix(target.Path, "/")
	role = role[:min(len(role), 63)]
	_, err = pool.Exec(t.Context(), "create role "+role+" login password 'secret' "+attributes)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, statement := range []string{"drop owned by " + role, "drop role " + role} {
			_, err := pool.Exec(context.Background(), statement)
			require.NoError(t, err)
		}
	})
	target.User = url.UserPassword(role, "secret")
	return target.String()
}

func TestB39AMissingSchemaIsRefusedAndTheEngineStartsOnceItIsThere(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	engine, handle := starting(t, pool, troupe.Config{})
	require.ErrorContains(t, engine.Start(t.Context()), "troupe migrate up")
	migrate(t, pool)
	require.NoError(t, engine.Start(t.Context()))
	_, err := handle.Run(t.Context(), "")
	require.NoError(t, err)
}

func TestB39ASchemaOfANewerProgramIsRefused(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	_, err := pool.Exec(t.Context(), `insert into troupe.schema_version (version, name) values (9999, 'later')`)
	require.NoError(t, err)
	engine, _ := starting(t, pool, troupe.Config{})
	err = engine.Start(t.Context())
	require.ErrorIs(t, err, migrations.ErrNewer)
	require.ErrorContains(t, err, "9999")
}

func TestB39ARoleWithoutRightsIsToldWhatItNeeds(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	owner := poolOf(t, address)
	migrate(t, owner)
	engine, _ := starting(t, poolOf(t, as(t, owner, address, "")), troupe.Config{})
	err := engine.Start(t.Context())
	require.ErrorContains(t, err, "grant")
	require.NotContains(t, err.Error(), "secret")
}

// With a DirectURL the pool is taken to connect to a proxy. Only connections that need
// a session of their own bypass it.
func TestB39ADirectURLIsWhereTheEngineConnects(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	pool := poolOf(t, address)
	migrate(t, pool)
	engine, handle := starting(t, pool, troupe.Config{DirectURL: as(t, pool, address, "superuser")})
	require.NoError(t, engine.Start(t.Context()))
	_, err := handle.Run(t.Context(), "")
	require.NoError(t, err)
	const query = `select count(*) filter (where usename like 'r\_%' and query ~ 'renew_pod|^listen'),
		count(*) filter (where usename not like 'r\_%' and query ~ 'renew_pod|^listen'),
		count(*) filter (where usename not like 'r\_%' and query like '/* troupe%')
		from pg_stat_activity where datname = current_database() and application_name like 'troupe%'`
	require.Eventually(t, func() bool { // the first renewal takes a moment
		var direct, astray, proxied int
		require.NoError(t, pool.QueryRow(t.Context(), query).Scan(&direct, &astray, &proxied))
		require.Zero(t, astray)
		return direct == 2 && proxied > 0
	}, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, engine.Stop(context.Background()))
}

func TestB39TheRoleOfADirectURLNeedsRightsToo(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	pool := poolOf(t, address)
	migrate(t, pool)
	engine, _ := starting(t, pool, troupe.Config{DirectURL: as(t, pool, address, "")})
	err := engine.Start(t.Context())
	require.ErrorContains(t, err, "DirectURL")
	require.ErrorContains(t, err, "grant")
	require.NotContains(t, err.Error(), "secret")
}

func TestB39ABadDirectURLIsNamed(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	for address, want := range map[string]string{
		"postgres://u:secret@127.0.0.1:port/d": "DirectURL",
		"postgres://u:secret@127.0.0.1:1/d":    "connect",
		"u:secret@127.0.0.1/d?sslmode=disable": "DirectURL has a parameter of no possible name",
		"url=postgres://u:secret@127.0.0.1/d":  "DirectURL has a URL as the value of url",
		"postgres://u:a@secret@127.0.0.1:1/d":  "DirectURL has an @ in its host: write an @ in a name or a password as %40",
	} {
		engine, _ := starting(t, pool, troupe.Config{DirectURL: address})
		err := engine.Start(t.Context())
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
}

// An address that the driver misreads is reported before it connects: the driver's own
// error would show the password.
func TestB44AMisreadAddressOfAPoolIsRefused(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"u:secret@127.0.0.1/d?sslmode=disable":         "has a parameter of no possible name",
		"postgres://u:a@secret@127.0.0.1:1/d":          "has an @ in its host",
		"dbname=postgres://u:secret@127.0.0.1/d":       "has a URL as the value of dbname",
		"host=h,postgres://u:secret@127.0.0.1/d":       "has a URL as the value of host",
		"application_name=postgres://u:secret@h host=": "connect",
	} {
		config, err := pgxpool.ParseConfig(address)
		require.NoError(t, err)
		if want == "connect" {
			config.ConnConfig.Port = 1
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		engine, _ := starting(t, pool, troupe.Config{})
		_, opening := troupe.OpenDeadLetters(t.Context(), pool, "troupe")
		for _, err := range []error{engine.Start(t.Context()), opening} {
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "secret")
		}
	}
}

func TestATriggerInATransactionWakesPodsWithoutAStream(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	owner := poolOf(t, address)
	migrate(t, owner)
	role := as(t, owner, address, "noreplication")
	name := role[strings.Index(role, "://")+3 : strings.Index(role, ":secret")]
	for _, grant := range []string{
		"grant usage on schema troupe to " + name,
		"grant select, insert, update, delete on all tables in schema troupe to " + name,
	} {
		_, err := owner.Exec(t.Context(), grant)
		require.NoError(t, err)
	}
	pool := poolOf(t, role)
	engine, handle := starting(t, pool, troupe.Config{})
	require.NoError(t, engine.Start(t.Context()))

	ears, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = ears.Close(context.Background()) })
	_, err = ears.Exec(t.Context(), "listen "+clusterpg.Channel(migrations.DefaultSchema))
	require.NoError(t, err)

	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	run, err := handle.TriggerTx(t.Context(), tx, "")
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	heard := func(ctx context.Context) error {
		for {
			notification, err := ears.WaitForNotification(ctx)
			if err != nil {
				return err
			}
			notice, err := clusterpg.ParsePayload(notification.Payload)
			require.NoError(t, err)
			if slices.ContainsFunc(notice.Wakes, func(w cluster.Wake) bool { return w.Kind == cluster.WakeSubmitted }) {
				return nil
			}
		}
	}
	require.NoError(t, heard(t.Context()))
	_, err = run.Await(t.Context())
	require.NoError(t, err)
}

// A schema that is not the engine's is named by the error of the start, which asks for
// no rights on it.
func TestStartOnAForeignSchema(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	owner := poolOf(t, address)
	mine := as(t, owner, address, "")
	for _, statement := range []string{
		"create schema shop", "create table shop.tasks (id int)", "create table shop.schema_version (version varchar(50), success boolean)",
		"grant usage on schema shop to public",
	} {
		_, err := owner.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	engine, _ := starting(t, poolOf(t, mine), troupe.Config{Schema: "shop"})
	err := engine.Start(t.Context())
	require.ErrorIs(t, err, migrations.ErrForeign)
	require.NotErrorIs(t, err, migrations.ErrRights)
}
