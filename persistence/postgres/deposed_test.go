package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// usurper lets another lead once a leader has looked, before it writes.
type usurper struct{ usurp func() }

// TraceQueryStart implements pgx.QueryTracer.
func (u *usurper) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if usurp := u.usurp; usurp != nil && strings.HasPrefix(data.SQL, "/* troupe fence ") {
		u.usurp = nil
		usurp()
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*usurper) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// leadersCalls are what a leader does, on a workflow that sleeps.
var leadersCalls = map[string]struct {
	prepare func(k *fixture, pod int64) // something to do
	do      func(k *fixture, epoch int64) error
}{
	"timers": {
		func(k *fixture, pod int64) { k.complete(pod, k.claim(pod, 1)...) },
		func(k *fixture, epoch int64) error {
			_, err := k.store.FireTimers(k.ctx, epoch, 10)
			return err
		},
	},
	"pods": {
		func(k *fixture, pod int64) {
			require.Len(k.t, k.claim(pod, 1), 1)
			k.exec(`update {schema}.pods set expires_at = now() - interval '1 second'`)
		},
		func(k *fixture, epoch int64) error {
			_, err := k.store.ExpirePods(k.ctx, epoch, 3, 10, time.Time{})
			return err
		},
	},
	"parking": {
		func(k *fixture, pod int64) {
			k.leave(pod)
		},
		func(k *fixture, epoch int64) error {
			_, err := k.store.ParkTasks(k.ctx, epoch, 10)
			return err
		},
	},
	"archive": {
		func(k *fixture, pod int64) {
			epoch := k.bump(pod)
			k.complete(pod, k.claim(pod, 1)...)
			k.fire(epoch, 10)
			k.finish(pod)
		},
		func(k *fixture, epoch int64) error {
			_, err := k.store.ArchiveRuns(k.ctx, epoch, persistence.Archive{})
			return err
		},
	},
	"events": {
		func(*fixture, int64) {},
		func(k *fixture, epoch int64) error {
			_, err := k.store.RotateEvents(k.ctx, epoch, time.Hour)
			return err
		},
	},
}

// A leader looks before it writes, and its look is refused if another leads. One that is
// deposed after its look writes nothing, either.
func TestALeaderThatIsDeposedAfterItsLookWritesNothing(t *testing.T) {
	t.Parallel()
	nap := storetest.Nap(time.Nanosecond)
	for name, c := range leadersCalls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracer := &usurper{}
			k := newFixture(openDatabase(t, Options{Tracer: tracer}), nap)
			pod := k.join(time.Hour)
			k.start(nap, "a", 1)
			c.prepare(k, pod)
			epoch := k.bump(pod)
			newer := int64(0)
			tracer.usurp = func() {
				newer = k.bump(pod)
			}
			before := k.contents()
			require.ErrorIs(t, c.do(k, epoch), persistence.ErrDeposed)
			require.Greater(t, newer, epoch, "it was deposed after its look")
			require.Equal(t, before, k.contents())
			require.NoError(t, c.do(k, newer))
			require.NotEqual(t, before, k.contents(), "there was something to do")
		})
	}
}

// contents is what is stored, but for the epoch of the leader.
type contents struct {
	tables snapshot.Tables
	spans  int
}

func (k *fixture) contents() (all contents) {
	k.t.Helper()
	var err error
	all.tables, err = k.store.Snapshot(k.ctx)
	require.NoError(k.t, err)
	all.tables.Epoch = 0
	all.spans = value[int](k.database, `select count(*) from {schema}.spans`)
	return all
}
