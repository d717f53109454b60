package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
)

// F02: a crash after an effect and before its completion repeats the effect
// under the same idempotency key.
func TestCrashAfterEffect(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F02", Name: "crash-after-effect", Fault: "the process ends after the effect and before its completion",
		Must:    "I3 I11; the effect is repeated under the same key",
		Allowed: []figure{exactly("effects per key", 2), exactly("keys", 1)},
	})
	y := newYard(r, brisk(), 0)
	pods := y.start("pod-1", "pod-2")
	ids := y.trigger(pods[0], "crash", 1)
	revived := 0
	y.until("the run has ended", patience, func() bool {
		revived += y.revive("pod-1", "pod-2")
		return y.number(openSQL) == 0
	})
	keys := map[string]int{}
	for _, e := range readLedgers(r, y.dir) {
		if e.what == "effect" {
			keys[e.detail]++
		}
	}
	r.count("keys", len(keys))
	for _, times := range keys {
		r.count("effects per key", times)
	}
	require.Len(r, ids, 1)
	require.Equal(r, 1, revived)
	y.judge()
}

// F02: a crash just before the commit of completions repeats what was executed,
// once for each crash.
func TestCrashBeforeTheCommit(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F02", Name: "crash-before-commit", Fault: "the process ends before the transaction of completions, under load",
		Must:    "I3 I11; nothing is executed again but what the crash cut off",
		Allowed: []figure{atLeast("crashes", float64(spell(3, 15)), ""), none("effects without a loss to excuse them")},
	})
	y := newYard(r, brisk(), 4)
	crashed := y.crashAtRecords(crashBefore, spell(3, 15))
	v := y.settle()
	r.count("effects without a loss to excuse them", max(0, v.repeated-v.losses-v.released))
	r.note("%d tasks were in records that were cut off", len(crashed))
}

// F03: what was committed before a crash is not executed again, although the pod
// crashed before it read the answer.
func TestCrashAfterTheCommit(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F03", Name: "crash-after-commit", Fault: "the process ends after the transaction of completions and before its answer, under load",
		Must:    "I3 I5; children are enqueued once",
		Allowed: []figure{atLeast("crashes", float64(spell(3, 15)), ""), none("committed tasks taken back or executed again")},
	})
	y := newYard(r, brisk(), 4)
	crashed := y.crashAtRecords(crashAfter, spell(3, 15))
	y.settle()
	again := 0
	for _, task := range crashed {
		again += y.number(`select count(*)::int from troupe.every_event e where run_id = $1 and step = $2 and n >
			(select n from troupe.every_event c where c.run_id = e.run_id and c.step = e.step and c.kind = 'completed')`, task.run, task.step)
	}
	r.count("committed tasks taken back or executed again", again)
	r.note("%d tasks were in records whose answer was lost", len(crashed))
}

// crashAtRecords has one pod after the other end at a record, under load, and
// returns the tasks in those records.
func (y *yard) crashAtRecords(place string, times int) (tasks []taskKey) {
	y.t.Helper()
	names := []string{"pod-1", "pod-2", "pod-3"}
	y.each = func(s *podSpec) { s.Fail.Record = place }
	y.start(names...)
	y.warm()
	crashes := 0
	for range times {
		y.resumed()
		y.arm(place)
		y.eventually("a pod has crashed", func() bool { return len(y.alive()) < len(names) })
		crashes += y.revive(names...)
	}
	y.t.count("crashes", crashes)
	for _, e := range readLedgers(y.t, y.dir) {
		if e.what == "crashed" {
			tasks = append(tasks, taskKey{run: e.run, step: e.detail})
		}
	}
	require.NotEmpty(y.t, tasks)
	return tasks
}

// F04: a pod that ends between two statements of a transaction, or with half of
// a batch of them sent, leaves nothing half-written.
func TestCrashInsideTransactions(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F04", Name: "crash-mid-fan-out", Fault: "the process ends between the statements of a transaction, or with half of them sent; runs fan out to 24",
		Must: "I5 I6", Allowed: []figure{atLeast("crashes", float64(spell(6, 40)), ""), atLeast("of these between statements", float64(spell(1, 10)), ""), none("children missing"), none("children enqueued twice")},
	})
	tune := brisk()
	tune.MaxLost = 100
	y := newYard(r, tune, 0)
	writes := 0
	y.each = func(s *podSpec) {
		s.Fail.Writes, s.Fail.Apart = 0, false
		if s.Name != "pod-1" { // one is sound, and triggers
			s.Fail.Writes = 220 + 37*writes%211 // behind the start
			s.Fail.Apart = writes%2 == 1        // most transactions are sent at once
			writes++
		}
	}
	sound := y.start("pod-1")[0]
	y.start("pod-2", "pod-3")
	crashes, runs := 0, 0
	for crashes < spell(6, 40) {
		runs += len(y.trigger(sound, "fan", 4))
		y.eventually("a pod has crashed, or all is done", func() bool { return len(y.alive()) < 3 || y.number(openSQL) == 0 })
		crashes += y.revive("pod-2", "pod-3")
	}
	y.each = nil
	for _, p := range y.alive() {
		if p != sound {
			p.kill()
		}
	}
	r.count("crashes", crashes)
	v := y.judge()
	const tasks = `select count(*)::int from troupe.every_task t join troupe.every_run r on r.id = t.run_id where t.state in ('completed', 'skipped')`
	r.count("children missing", runs*(fanWidth+2)-y.number(tasks))
	const twice = `select count(*)::int from (select from troupe.every_event e where kind = 'completed' and step >= 0
		group by run_id, step having count(*) > 1) s`
	r.count("children enqueued twice", y.number(twice))
	r.count("of these between statements", y.lefts()[betweenStatements])
	r.note("%d fans", v.runs)
}

// lefts counts where processes ended on purpose.
func (y *yard) lefts() map[string]int {
	y.t.Helper()
	places := map[string]int{}
	for _, e := range readLedgers(y.t, y.dir) {
		if e.what == "left" {
			places[e.detail]++
		}
	}
	return places
}

// F16: a step function that ends every process that executes it is given up
// after three, and others complete.
func TestPoisonPill(t *testing.T) {
	t.Parallel()
	for _, pill := range []struct{ name, shape, fault string }{
		{"poison-exit", "poison", "a step function calls os.Exit in whatever pod executes it, under load"},
		{"poison-race", "racy", "a step function writes to one map from several goroutines: the runtime ends the process"},
		{"poison-memory", "glutton", "a step function allocates 4 GiB where the process may have 1 more: the runtime ends the process"},
	} {
		t.Run(pill.name, func(t *testing.T) {
			t.Parallel()
			r := begin(t, row{
				ID: "F16", Name: pill.name, Fault: pill.fault, FullOnly: pill.shape != "poison",
				Must: "I13 I14; given up as lost and kept as a dead letter, others complete", Allowed: []figure{exactly("crashes", 3), exactly("dead letters, for poison", 1), none("innocent runs failed")},
			})
			if pill.shape == "glutton" && addressSpace() == 0 {
				r.notInjected("this system does not tell how much memory a process has mapped")
			}
			tune := brisk()
			tune.MaxLost = 3
			y := newYard(r, tune, 2)
			pods := y.start("pod-1", "pod-2", "pod-3")
			y.warm()
			poison := y.trigger(pods[0], pill.shape, 1)[0]
			y.arm(pill.shape)
			crashes := 0
			y.eventually("the poisoned run is given up", func() bool {
				crashes += y.revive("pod-1", "pod-2", "pod-3")
				return y.number(`select count(*)::int from troupe.every_run where id = $1 and state = 'failed'`, poison) == 1
			})
			r.count("crashes", crashes)
			y.settle()
			const letters = `select count(*)::int from troupe.dead_letters where run_id = $1 and reason = $2 and lost = 3`
			r.count("dead letters, for poison", y.number(letters, poison, int(lifecycle.PoisonPill)))
			r.count("innocent runs failed", y.number(`select count(*)::int from troupe.every_run where id <> $1 and state = 'failed'`, poison))
		})
	}
}

// F16: pods that end for a cause of their own, again and again, do not make poison
// pills of the steps that they execute.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F16", Name: "crash-loop", FullOnly: true, Fault: "all pods are killed, again and again, until a step was lost five times; three losses make a poison pill",
		Must: "I1 I3 I14; innocent runs complete", Allowed: []figure{atLeast("kills", 15, ""), none("innocent runs failed"), none("dead letters")},
	})
	tune := brisk()
	tune.MaxLost = 3
	y := newYard(r, tune, 0)
	names := []string{"pod-1", "pod-2", "pod-3"}
	pods := y.start(names...)
	y.trigger(pods[0], "hold", len(names))
	kills := 0
	for y.number(`select coalesce(max(lost), 0) from troupe.tasks`) < 5 {
		y.eventually("each step is executed", func() bool {
			return y.number(`select count(*)::int from troupe.tasks where state = 'running'`) == len(names)
		})
		for _, p := range y.alive() {
			p.kill()
			kills++
		}
		y.start(names...)
		y.eventually("the dead are taken over", func() bool { return y.number(`select count(*)::int from troupe.pods`) == len(names) })
	}
	r.count("kills", kills)
	for _, name := range names {
		y.letGo(name)
	}
	y.judge()
	r.count("innocent runs failed", y.number(`select count(*)::int from troupe.every_run where state = 'failed'`))
	r.count("dead letters", y.number(`select count(*)::int from troupe.dead_letters`))
}

// revive starts pods that have ended, and returns how many.
func (y *yard) revive(names ...string) int {
	y.t.Helper()
	revived := 0
	for _, name := range names {
		if y.named(name) == nil {
			y.spawn(name)
			revived++
		}
	}
	return revived
}
