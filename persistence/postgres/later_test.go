package postgres

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// A leader passes over the runs of a definition that it cannot read, because a later version
// stored it: their timers, tasks of dead pods, and submissions stay as they are, and those of
// other runs beside them go on. A cancel of such a run is refused. A leader that can read the
// definition carries them out.
func TestADefinitionOfALaterVersionIsPassedOver(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]string{
		"kind of a step":  "update {schema}.definition_steps set kind = 9 where step = 0 and definition = $1",
		"trait":           "update {schema}.definition_steps set traits = traits | 8192 where step = 0 and definition = $1",
		"kind of an edge": "update {schema}.definition_steps set children = array[1 << 3] where step = 0 and definition = $1",
		"policy":          "update {schema}.workflow_definitions set policy = 9 where definition = $1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := storetest.Nap(time.Nanosecond), storetest.Nap(2*time.Nanosecond)
			k, pod := withPod(t, ours, theirs)
			left := k.start(theirs, "a", 5)
			k.complete(pod, k.claim(pod, 3)...) // the others stay with the pod
			k.claim(pod, 2)
			left = append(left, k.submit(theirs, 2)...)
			k.exec("update {schema}.pods set expires_at = '-infinity'")
			number := registry.DefinitionNumber(theirs.Hash)
			whole := value[string](k.database, "select jsonb_build_object('steps', jsonb_agg(s), 'all', (select jsonb_agg(d) from {schema}.workflow_definitions d))::text from {schema}.definition_steps s")
			k.exec(later, number)

			old := k.starts(ours)
			second := old.join(time.Hour)
			epoch := old.bump(second)
			mine := append(old.start(ours, "a", 3), old.submit(ours, 2)...)
			timers := "select count(*) from {schema}.durable_timers t join {schema}.workflow_runs r on r.id = t.run_id where r.definition = $1"
			before := value[int](k.database, timers, number)
			require.Equal(t, 3, before)
			for range 4 {
				old.lead(epoch)
				for _, grant := range old.claim(second, 100) {
					require.Contains(t, mine, grant.Task.Run)
					old.complete(second, grant)
				}
			}
			for _, run := range mine {
				require.Equal(t, lifecycle.Completed, old.state(run))
			}
			require.Equal(t, before, value[int](k.database, timers, number))
			require.Equal(t, []int32{number}, old.store.quarantine.Excluded().Definitions)
			_, err := old.store.CancelRun(k.ctx, persistence.Cancel{Run: left[0], Tenant: "a"})
			require.ErrorIs(t, err, persistence.ErrUnavailable)
			require.ErrorContains(t, err, "later version")

			k.exec(`update {schema}.definition_steps s set kind = (z->>'kind')::int, traits = (z->>'traits')::int,
				children = array(select jsonb_array_elements_text(z->'children')::int)
				from jsonb_array_elements($1::jsonb->'steps') z where s.definition = (z->>'definition')::int and s.step = (z->>'step')::int`, whole)
			k.exec(`update {schema}.workflow_definitions d set policy = (z->>'policy')::int
				from jsonb_array_elements($1::jsonb->'all') z where d.definition = (z->>'definition')::int`, whole)
			newer := k.starts(theirs)
			third := newer.join(time.Hour)
			for range 4 {
				newer.lead(epoch)
				newer.finish(third)
			}
			for _, run := range left {
				require.Equal(t, lifecycle.Completed, newer.state(run))
			}
			newer.requireSound()
		})
	}
}

// The log says once that timers of later versions are left alone, however many.
func TestTimersOfALaterVersionAreLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	k := newFixture(openDatabase(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}), storetest.Nap(time.Hour))
	pod := k.join(time.Hour)
	runs := k.start(storetest.Nap(time.Hour), "a", 2)
	k.complete(pod, k.claim(pod, 2)...)
	epoch := k.bump(pod)
	for _, run := range runs {
		require.NoError(t, k.setTimer(k.ctx, snapshot.Timer{Run: run, Step: lifecycle.RunStep, Kind: lifecycle.TimerKindMax, At: time.Unix(1, 0)}))
	}
	k.exec("delete from {schema}.workflow_runs where id = $1", [16]byte(runs[0])) // a later version may have timers of no run
	for range 3 {
		fired := k.fire(epoch, 10)
		require.Zero(t, fired.Count)
		require.Greater(t, fired.Next.Sub(fired.Now), 50*time.Minute)
	}
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("only a later version of the engine knows")))
	require.Contains(t, log.String(), "timer_count=2")
	require.Equal(t, 2, value[int](k.database, "select count(*)::int from {schema}.durable_timers where kind = $1", lifecycle.TimerKindMax))
}

// A pod of a version before the number of the protocol joins beside others.
func TestAPodWithoutAProtocol(t *testing.T) {
	t.Parallel()
	k := newFixture(openDatabase(t, Options{}), storetest.Single())
	k.exec(`insert into {schema}.pods (id, name, version, slots, started_at, expires_at, ttl, queues, handlers) overriding system value
		values (1, 'old', '', 1, now(), now() + interval '1 hour', interval '1 hour', '{default}', $1)`, k.handlers)
	s, err := k.store.Situation(k.ctx, "", k.start(storetest.Single(), "a", 1)[0])
	require.NoError(t, err)
	require.Len(t, s.Pods, 1)
	require.Zero(t, s.Pods[0].Protocol)
	require.Len(t, k.claim(1, 1), 1)
}

// Flags of a later version are beyond the first byte: what happens to a task leaves them on its
// row, and so does history.
func TestFlagsOfALaterVersionStay(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	run := k.start(storetest.Single(), "a", 1)[0]
	grant := k.claim(pod, 1)[0]
	k.exec("update {schema}.tasks set flags = flags | 4096")
	record := k.completion(pod, grant)
	record.Transitions[0].Report, record.Transitions[0].Class, record.Transitions[0].Error = lifecycle.Errored, "test", "no"
	require.Equal(t, []lifecycle.Answer{lifecycle.Moved}, k.send(record))
	require.EqualValues(t, 4096, value[int16](k.database, "select flags from {schema}.tasks"))
	require.Equal(t, lifecycle.Failed, k.state(run))
	k.archived(k.bump(pod), persistence.Archive{})
	require.EqualValues(t, 4096, value[int16](k.database, "select flags from {schema}.every_task"))
}
