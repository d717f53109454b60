package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

func TestMain(m *testing.M) {
	pgtest.Main(m, map[string]string{"shared_buffers": "256MB", "deadlock_timeout": "200ms"})
}

// database is a migrated schema of its own with a user's pool and a store.
type database struct {
	t      testing.TB
	schema string
	user   *pgxpool.Pool
	store  *Store
}

// openDatabase returns a fresh database. Options fill in what is not theirs.
func openDatabase(t testing.TB, options Options) *database {
	t.Helper()
	user, err := pgxpool.New(t.Context(), migrated(t))
	require.NoError(t, err)
	t.Cleanup(user.Close)
	return openStore(t, user, options)
}

// openChanged is openDatabase with something changed of the user's pool.
func openChanged(t testing.TB, change func(*pgxpool.Config)) *database {
	t.Helper()
	config, err := pgxpool.ParseConfig(migrated(t))
	require.NoError(t, err)
	change(config)
	user, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(user.Close)
	return openStore(t, user, Options{})
}

// migrated returns the address of a new database with the tables in it, and with what
// the statements make besides.
func migrated(t testing.TB, statements ...string) string {
	t.Helper()
	return pgtest.Copy(t, strings.Join(append([]string{"migrated"}, statements...), "; "), func(ctx context.Context, url string) error {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return err
		}
		defer pool.Close()
		if _, err := migrations.Migrate(ctx, pool, migrations.DefaultSchema); err != nil {
			return err
		}
		for _, statement := range statements {
			if _, err := pool.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// openSchema makes the tables, too.
func openSchema(t testing.TB, user *pgxpool.Pool, options Options) *database {
	t.Helper()
	if options.Schema == "" {
		options.Schema = migrations.DefaultSchema
	}
	_, err := migrations.Migrate(t.Context(), user, options.Schema)
	require.NoError(t, err)
	return openStore(t, user, options)
}

func openStore(t testing.TB, user *pgxpool.Pool, options Options) *database {
	t.Helper()
	if options.Schema == "" {
		options.Schema = migrations.DefaultSchema
	}
	options.Pool = user
	store, err := Open(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	store.recentRunAge = 200 * 365 * 24 * time.Hour // ids of tests tell no time
	store.podID = inTurn()                          // as the model's
	return &database{t: t, schema: pgx.Identifier{options.Schema}.Sanitize(), user: user, store: store}
}

// inTurn gives out 1, 2, 3 …
func inTurn() func() int64 {
	last := &atomic.Int64{}
	return func() int64 { return last.Add(1) }
}

// exec runs a statement in which {schema} stands for the schema.
func (d *database) exec(sql string, args ...any) {
	d.t.Helper()
	_, err := d.user.Exec(d.t.Context(), strings.ReplaceAll(sql, "{schema}", d.schema), args...)
	require.NoError(d.t, err)
}

// value returns one value of the database.
func value[T any](d *database, sql string, args ...any) T {
	d.t.Helper()
	var v T
	require.NoError(d.t, d.user.QueryRow(d.t.Context(), strings.ReplaceAll(sql, "{schema}", d.schema), args...).Scan(&v))
	return v
}

// limit has the database refuse what storetest calls a bad payload.
func (d *database) limit() {
	d.t.Helper()
	d.exec(fmt.Sprintf(`
		alter table {schema}.tasks add check (1 / (output <> '%[1]s'::bytea)::int = 1);
		alter table {schema}.task_progress add check (1 / (progress <> '%[1]s'::bytea)::int = 1);
		alter table {schema}.map_items add check (1 / (payload <> '%[1]s'::bytea)::int = 1);
		alter table {schema}.machines add check (1 / (state <> '%[1]s'::bytea)::int = 1);
		alter table {schema}.inbox add check (1 / (payload <> '%[1]s'::bytea)::int = 1);
		alter table {schema}.workflow_runs add check (1 / (input <> '%[1]s'::bytea)::int = 1)`, storetest.BadPayload))
}

// harness is what the contract needs of a new database.
func (d *database) harness() storetest.Harness {
	d.limit()
	return d.ports()
}

// eager is a store that tries its statements for small work each time, also after a miss:
// what they do is compared with the model wherever they apply.
type eager struct{ *Store }

func (s eager) hit() {
	for queue := range int16(10) {
		s.triggerSinglesGranted.Hit(queue)
		s.claimFirst.Hit(queue)
		s.recordSmall.Hit(queue)
	}
}

// TriggerRuns implements persistence.Intake.
func (s eager) TriggerRuns(ctx context.Context, list []persistence.Trigger, take persistence.GrantRequest) (persistence.Triggers, error) {
	s.hit()
	return s.Store.TriggerRuns(ctx, list, take)
}

// ClaimTasks implements persistence.Queue.
func (s eager) ClaimTasks(ctx context.Context, request persistence.ClaimRequest) (persistence.Claimed, error) {
	s.hit()
	return s.Store.ClaimTasks(ctx, request)
}

// RecordTransitions implements persistence.Journal.
func (s eager) RecordTransitions(ctx context.Context, record persistence.Record) (persistence.Recorded, error) {
	s.hit()
	return s.Store.RecordTransitions(ctx, record)
}

// eagerly is harness for a database that is limited already, with an eager store.
func (d *database) eagerly() storetest.Harness {
	ports := d.ports()
	ports.Store = eager{d.store}
	return ports
}

// ports is harness for a database that is limited already.
func (d *database) ports() storetest.Harness {
	return storetest.Harness{
		Store:    d.store,
		Begin:    d.begin,
		Advance:  d.advance,
		SetTimer: d.setTimer,
		Forget:   d.forget,
		Snapshot: d.store.Snapshot,
		Analyze:  d.analyze,
		Block:    d.block,
	}
}

// block locks rows in a session of its own, or deletes a definition whose program has ended.
func (d *database) block(ctx context.Context, b storetest.Blocked) (release func(), err error) {
	switch {
	case b.Tenant != "":
		return d.lock(ctx, `select from {schema}.tenant_groups g join {schema}.tenants n using (group_id) where n.tenant = $1 for update of g`, b.Tenant)
	case !b.Locked.IsZero():
		return d.lock(ctx, `with r as (select from {schema}.workflow_runs where id = $1 for update)
			select from (select from {schema}.tasks where run_id = $1 for update) t, r`, [16]byte(b.Locked))
	case b.Definition != workflow.Hash{}:
		if _, err := d.user.Exec(ctx, strings.ReplaceAll(`with d as (delete from {schema}.workflow_definitions where hash = $1 returning definition)
			delete from {schema}.definition_steps where definition in (select definition from d)`, "{schema}", d.schema), b.Definition[:]); err != nil {
			return nil, err
		}
		d.store.Catalog = registry.NewCatalog() // of another program
		return func() {}, d.store.LoadQueues(ctx)
	}
	return nil, storetest.ErrCannotBlock
}

// lock runs a statement that locks rows, and keeps its transaction open until release.
func (d *database) lock(ctx context.Context, sql string, args ...any) (release func(), err error) {
	conn, err := pgx.ConnectConfig(ctx, d.user.Config().ConnConfig)
	if err != nil {
		return nil, err
	}
	d.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) })
	tx, err := conn.Begin(ctx)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, strings.ReplaceAll(sql, "{schema}", d.schema), args...)
	return func() { _ = tx.Rollback(ctx) }, err
}

func (d *database) setTimer(ctx context.Context, t snapshot.Timer) error {
	_, err := d.user.Exec(ctx, "insert into "+d.schema+".durable_timers (run_id, step, kind, wake_at, epoch) values ($1, $2, $3, $4, $5)",
		[16]byte(t.Run), t.Step, int16(t.Kind), t.At, t.Epoch)
	return err
}

func (d *database) forget(ctx context.Context, run workflow.RunID) error {
	_, err := d.user.Exec(ctx, "delete from "+d.schema+".intake where run_id = $1 and signal", [16]byte(run))
	return err
}

func (d *database) begin(ctx context.Context) (storetest.Tx, error) {
	tx, err := d.user.Begin(ctx)
	if err == nil {
		d.t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }) // or closing the pool waits for it
	}
	return storetest.Tx{Value: tx, Commit: tx.Commit, Rollback: tx.Rollback}, err
}

// analyze gathers statistics as autovacuum would.
func (d *database) analyze(ctx context.Context) error {
	for _, table := range []string{
		"workflow_runs", "tasks", "task_events", "ready_queue", "tenant_groups", "frontiers", "claims", "pods", "durable_timers",
		"definition_steps", "run_keys", "tenants", "parked_tasks", "task_progress", "intake", "inbox", "maps", "map_items", "leader_epoch", "deaths", "pod_names",
	} {
		if _, err := d.user.Exec(ctx, "vacuum analyze "+d.schema+"."+table); err != nil {
			return err
		}
	}
	return nil
}

// empty leaves the database as a migration leaves it, which takes a tenth of the time of a
// new one.
func (d *database) empty() {
	d.t.Helper()
	d.exec(`truncate {schema}.workflow_definitions, {schema}.definition_steps, {schema}.handlers, {schema}.queues, {schema}.frontiers,
		{schema}.tenants, {schema}.tenant_groups, {schema}.ready_queue, {schema}.parked_tasks, {schema}.workflow_runs, {schema}.tasks,
		{schema}.task_events, {schema}.task_progress, {schema}.run_keys, {schema}.intake, {schema}.inbox, {schema}.maps, {schema}.map_items, {schema}.machines, {schema}.durable_timers, {schema}.pods, {schema}.deaths, {schema}.pod_names,
		{schema}.claims, {schema}.run_history, {schema}.task_events_kept, {schema}.dead_letters, {schema}.dead_inputs,
		{schema}.run_count_deltas, {schema}.run_counts, {schema}.run_counts_hourly restart identity`)
	d.dropSpans()
	d.exec(`update {schema}.archived_up_to set id = '00000000-0000-0000-0000-000000000000', hours_from = '-infinity'`)
	d.exec(`insert into {schema}.queues (queue, name) values (1, 'default')`)
	d.exec(`insert into {schema}.frontiers (queue, band, block) values (1, 0, 0)`)
	d.exec(`update {schema}.leader_epoch set epoch = 0, holder = 0`)
}

// dropSpans drops all spans of history and of events.
func (d *database) dropSpans() {
	d.t.Helper()
	for _, table := range value[[]string](d, `select coalesce(array_agg(case when class is null then 'task_events_' || span
		else 'run_history_' || class || '_' || span end), '{}') from {schema}.spans`) {
		d.exec("drop table {schema}." + table)
	}
	d.exec("delete from {schema}.spans")
}

// advance shifts every instant that the store compares with its clock, and does
// what rotation would meanwhile: events of living runs are put aside, others go.
func (d *database) advance(ctx context.Context, by time.Duration) error {
	sql := strings.ReplaceAll(`with t as (
			update {schema}.durable_timers set wake_at = wake_at - $1::bigint * interval '1 microsecond'
		), i as (
			update {schema}.intake set at = at - $1::bigint * interval '1 microsecond'
		), b as (
			update {schema}.inbox set at = at - $1::bigint * interval '1 microsecond' where n is null
		), s as (
			update {schema}.tasks set wake_at = wake_at - $1::bigint * interval '1 microsecond' where (state = 1 or traits & 2048 > 0) and wake_at is not null
		), d as (
			update {schema}.dead_letters set died_at = died_at - $1::bigint * interval '1 microsecond'
		), k as (
			update {schema}.spans set kept_from = kept_from - $1::bigint * interval '1 microsecond'
		), e as (
			update {schema}.deaths set at = at - $1::bigint * interval '1 microsecond'
		)
		update {schema}.pods set expires_at = expires_at - $1::bigint * interval '1 microsecond'`, "{schema}", d.schema)
	if _, err := d.user.Exec(ctx, sql, by.Microseconds()); err != nil {
		return err
	}
	for _, sql := range []string{
		`insert into {schema}.task_events_kept select e.* from {schema}.task_events e where e.run_id in (select id from {schema}.workflow_runs)`,
		`truncate {schema}.task_events`,
	} {
		if _, err := d.user.Exec(ctx, strings.ReplaceAll(sql, "{schema}", d.schema)); err != nil {
			return err
		}
	}
	return nil
}
