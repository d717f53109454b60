package postgres

import (
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/internal/sim/swarm"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/memory"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/adaptive"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

var (
	simSeeds = flag.Int("sim.seeds", pgtest.Scale(4, 30), "simulation on PostgreSQL: number of seeds")
	simSeed  = flag.Uint64("sim.seed", 0, "simulation on PostgreSQL: run this seed only, or the seeds from here on")
)

// compareEvery is after how many calls everything that both stores keep is
// compared: often enough to find the place, rarely enough to be cheap.
const compareEvery = 100

// TestSimulation runs clusters with faults on this store and on the model at
// once. Every answer, every row and every instant must be the same, and so the
// history of a cluster must be what the same seed leads to on the model alone.
func TestSimulation(t *testing.T) {
	t.Parallel()
	open := schemas(t)
	first, count := uint64(1), *simSeeds
	if *simSeed != 0 {
		first = *simSeed
		if !given("sim.seeds") {
			count = 1
		}
	}
	var calls atomic.Int64
	t.Cleanup(func() { t.Logf("%d seeds, %d store calls", count, calls.Load()) })
	free := make(chan *simulatedDatabase, count+1) // emptying one takes a tenth of the time of making one
	free <- newSimulatedDatabase(open(t))          // or the test is skipped as a whole
	for seed := first; seed < first+uint64(count); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(one *testing.T) {
			one.Parallel()
			var d *simulatedDatabase
			select {
			case d = <-free:
			default:
				d = newSimulatedDatabase(open(t))
			}
			calls.Add(d.simulate(one, seed))
			d.empty()
			free <- d
		})
	}
}

// given reports whether a flag is on the command line.
func given(name string) (found bool) {
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// simulate runs a seed on this database and on the model alone, and returns
// how many calls the stores got.
func (d *simulatedDatabase) simulate(t *testing.T, seed uint64) int64 {
	t.Helper()
	lab := swarm.NewLab()
	var twin *simulated
	var lines []sim.Line
	report := lab.Run(swarm.Options{
		Seed:  seed,
		Trace: func(line sim.Line) { lines = append(lines, line) },
		Store: func(w *sim.World) sim.Store {
			twin = d.under(w)
			return twin
		},
	})
	twin.compare()
	twin.read()
	if wrong := twin.world.Violation(); wrong != nil {
		t.Fatalf("%v\n%s\n%s\nreplay with -sim.seed=%d", wrong, report.Setting, told(lines), seed)
	}
	at := 0
	alone := lab.Run(swarm.Options{Seed: seed, Store: modelAlone, Trace: func(line sim.Line) {
		if at < len(lines) && line != lines[at] {
			t.Fatalf("the histories part:\n%s\nand on the model alone:\n%v\nreplay with -sim.seed=%d", told(lines[:at+1]), line, seed)
		}
		at++
	}})
	require.Equal(t, alone.Hash, report.Hash)
	return twin.calls
}

// modelAlone is a world on its model, with the clock of one on PostgreSQL.
func modelAlone(w *sim.World) sim.Store { return onModel{w.Model()} }

type onModel struct{ *memory.Store }

// InTx implements sim.Store.
func (s onModel) InTx(_ context.Context, fn func(tx any) error) error {
	tx := s.Begin()
	if err := fn(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

// told is the last lines of a history.
func told(lines []sim.Line) string {
	var text strings.Builder
	for _, line := range lines[max(0, len(lines)-20):] {
		text.WriteString(line.String() + "\n")
	}
	return text.String()
}

// simulatedDatabase is a database whose clock is set by its caller, and which
// refuses what the model of a simulation refuses.
type simulatedDatabase struct{ *database }

func newSimulatedDatabase(d *database) *simulatedDatabase {
	d.exec(strings.ReplaceAll(`
		alter table {schema}.tasks add check (1 / (output <> '\x{refused}'::bytea)::int = 1);
		alter table {schema}.task_progress add check (1 / (progress <> '\x{refused}'::bytea)::int = 1);
		alter table {schema}.workflow_runs add check (1 / (input <> '\x{refused}'::bytea)::int = 1);
		create unlogged table {schema}.simulated_clock (now timestamptz not null);
		insert into {schema}.simulated_clock values ('epoch');
		create function {schema}.simulated_now() returns timestamptz volatile language sql
		begin atomic select now from {schema}.simulated_clock; end`, "{refused}", hex.EncodeToString([]byte(swarm.BadRow))))
	for name, s := range d.store.Statements {
		simulated := d.schema + ".simulated_now()"
		s.Text = strings.NewReplacer("pg_catalog.clock_timestamp()", simulated, "clock_timestamp()", simulated).Replace(s.Text)
		d.store.Statements[name] = s
	}
	out := &simulatedDatabase{d}
	out.dropSpans()
	return out
}

// empty makes the database and what the store remembers of it as good as new.
func (d *simulatedDatabase) empty() {
	d.database.empty()
	d.store.Catalog, d.store.emptyBelow, d.store.podID = registry.NewCatalog(), adaptive.NewEmptyBelow(), inTurn()
	require.NoError(d.t, d.store.LoadQueues(d.t.Context()))
}

// simulated is the database of a simulated world, beside its model.
type simulated struct {
	storetest.Twin

	database *simulatedDatabase
	world    *sim.World
	calls    int64
	now      time.Time // by the database's clock
}

// under puts the database under a world.
func (d *simulatedDatabase) under(w *sim.World) *simulated {
	s := &simulated{database: d, world: w}
	s.Twin = storetest.Twin{Model: w.Model(), Product: d.store, Before: s.before, Diverged: s.diverged}
	return s
}

// before brings the database's clock to the world's time, and compares what is
// kept every now and then.
func (s *simulated) before() error {
	if s.calls++; s.calls%compareEvery == 0 {
		s.compare()
	}
	now := s.world.Now()
	if now.Equal(s.now) {
		return nil
	}
	s.now = now
	_, err := s.database.user.Exec(context.Background(), `update `+s.database.schema+`.simulated_clock set now = $1`, now)
	return err
}

func (s *simulated) diverged(call, difference string) {
	s.world.Fail("model", "%s: answers differ (-model +product):\n%s", call, difference)
}

// compare compares everything that the stores keep.
func (s *simulated) compare() {
	tables, err := s.database.store.Snapshot(context.Background())
	if err != nil {
		s.world.Fail("model", "snapshot: %v", err)
		return
	}
	if diff := storetest.DifferenceOf(s.world.Model().Snapshot(), tables); diff != "" {
		s.world.Fail("model", "states differ (-model +product):\n%s", diff)
	}
	if wrong := snapshot.Check(tables); len(wrong) > 0 {
		s.world.Fail("model", "%v", wrong)
	}
}

// read reads everything as readers do, from both stores.
func (s *simulated) read() {
	ctx := context.Background()
	list, err := s.ListRuns(ctx, persistence.RunFilter{Limit: persistence.PageMax, Budget: time.Hour})
	if err != nil {
		s.world.Fail("model", "list: %v", err)
	}
	for _, by := range []persistence.CountBy{persistence.ByWorkflow | persistence.ByTenant, persistence.ByHour} {
		_, _ = s.CountRuns(ctx, persistence.CountFilter{By: by})
	}
	rows := list.Rows
	for i := range rows {
		_, _ = s.Run(ctx, rows[i].Tenant, rows[i].ID)
		tasks, _ := s.Tasks(ctx, rows[i].Tenant, rows[i].ID)
		for step := range tasks {
			_, _ = persistence.Payload(ctx, s, workflow.TaskID{Run: rows[i].ID, Step: int32(step)})
		}
	}
}

// InTx implements sim.Store.
func (s *simulated) InTx(ctx context.Context, fn func(tx any) error) error {
	model := s.world.Model().Begin()
	product, err := s.database.user.Begin(ctx)
	if err != nil {
		return err
	}
	if err := fn(storetest.TwinTx{Model: model, Product: product}); err != nil {
		_ = model.Rollback()
		_ = product.Rollback(ctx)
		return err
	}
	if err := model.Commit(); err != nil {
		return err
	}
	return product.Commit(ctx)
}
