package chaos

import (
	"encoding/json"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/migrations"
)

// judgeMachines checks the machines, which have ended: their states against the tables, and both
// against what the activities noted outside.
func (y *yard) judgeMachines() {
	y.t.Helper()
	y.judgeStates()
	y.judgeErrands()
	y.t.count("activities lost with a pod", y.number(`select count(*)::int from troupe.every_event where kind = 'lost' and name like 'work#%'`))
	y.t.count("activations lost with a pod", y.number(`select count(*)::int from troupe.every_event e
		join troupe.every_run r on r.id = e.run_id join troupe.workflow_definitions d on d.definition = r.definition
		where d.name = $1 and e.step = 0 and e.kind = 'lost'`, machineName))
}

const spawnedSQL = `select r.run::text, r.key, t.name, t.state = 'completed', t.state = 'failed'
	from troupe.run_list r join troupe.every_task t on t.run_id = r.run and t.declared is not null
	where r.workflow = $1`

// judgeStates compares what each machine has counted with the tasks that the tables have.
func (y *yard) judgeStates() {
	y.t.Helper()
	rows, err := y.pool.Query(y.t.Context(), coded(spawnedSQL), machineName)
	require.NoError(y.t, err)
	type spawned struct {
		key               string
		completed, failed map[string]bool
	}
	runs := map[string]*spawned{}
	var run, key, name string
	var completed, failed bool
	_, err = pgx.ForEachRow(rows, []any{&run, &key, &name, &completed, &failed}, func() error {
		s := runs[run]
		if s == nil {
			s = &spawned{key, map[string]bool{}, map[string]bool{}}
			runs[run] = s
		}
		s.completed[name], s.failed[name] = completed, failed
		return nil
	})
	require.NoError(y.t, err)
	done, rejected, lost, twice, wrong, late := 0, 0, 0, 0, 0, 0
	reader, err := troupe.OpenReader(y.t.Context(), y.pool, migrations.DefaultSchema)
	require.NoError(y.t, err)
	defer func() { require.NoError(y.t, reader.Close()) }()
	for run, s := range runs {
		state := y.stateOf(reader, run)
		lanes, length := lanesOf(s.key)
		twice += state.Twice
		wrong += state.Wrong
		ticks, activities := 0, 0
		for name := range s.completed {
			switch kind, _, _ := strings.Cut(name, "#"); {
			case kind == "work":
				activities++
				if s.completed[name] {
					done++
				} else if s.failed[name] {
					rejected++
				}
				if state.Applied[name] == 0 {
					lost++
				}
			case kind == "tick" && s.completed[name]:
				ticks++
			}
		}
		if activities != lanes*length || len(state.Applied) != activities || len(state.Open) > 0 {
			lost++
			y.t.note("%s has %d activities of %d: %+v", run, activities, lanes*length, state)
		}
		for _, n := range state.Applied {
			twice += n - 1
		}
		if late += state.Late; ticks != lanes || state.Ticks != lanes {
			late++
		}
	}
	y.t.count("machines completed", y.number(`select count(*)::int from troupe.run_list where workflow = $1 and 'completed' = state`, machineName))
	y.t.count("activities completed", done)
	y.t.count("activities failed for good, and handled", rejected)
	y.t.count("activities lost", lost)
	y.t.count("results applied twice, by the states", twice)
	y.t.count("wrong results", wrong)
	y.t.count("timers that were lost, or fired after a cancel", late)
}

// stateOf returns the state of a machine, as its last activation left it.
func (y *yard) stateOf(reader *troupe.Reader, run string) (state machineState) {
	y.t.Helper()
	id, err := troupe.ParseRunID(run)
	require.NoError(y.t, err)
	status, err := reader.Machine(y.t.Context(), "tenant-0", id)
	require.NoError(y.t, err)
	require.NoError(y.t, json.Unmarshal(status.State, &state))
	require.Equal(y.t, status.Arrived, status.Handled, "the machine of run %s has ended, and an entry waits", run)
	return state
}

// judgeErrands counts what followed the end of each activity, by what activities have noted: one, or
// the result was applied twice.
func (y *yard) judgeErrands() {
	y.t.Helper()
	type end struct{ run, activity string }
	followers, keys := map[end]string{}, map[string]end{}
	twice, several := 0, 0
	for _, e := range readLedgers(y.t, y.dir) {
		if e.what != "errand" {
			continue
		}
		words := strings.Split(e.detail, " ")
		require.Len(y.t, words, 3, e.detail)
		step, follows, key := words[0], end{e.run, words[1]}, words[2]
		if of, known := keys[key]; known && of != (end{e.run, step}) {
			several++
		}
		keys[key] = end{e.run, step}
		if follows.activity == "" {
			continue
		}
		if other, known := followers[follows]; known && other != step {
			twice++
		}
		followers[follows] = step
	}
	require.NotEmpty(y.t, followers)
	y.t.count("results applied twice, by what followed", twice)
	y.t.count("idempotency keys of several activities", several)
}
