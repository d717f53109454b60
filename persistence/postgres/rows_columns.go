package postgres

import (
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// queueEvents adds the events of everything that was decided.
func (p *decisionTx) queueEvents(b *pgsql.Batch) {
	var (
		ids                  pgsql.UUIDs
		steps, attempts      []int32
		ns, pods, delays     []int64
		kinds                []int16
		wakes                pgsql.Instants
		bys, classes, errors []string
	)
	for _, r := range p.runs {
		for _, e := range r.decision.Events {
			ids, steps, attempts = append(ids, r.id), append(steps, e.Step), append(attempts, e.Attempt)
			ns, pods, delays = append(ns, e.N), append(pods, e.Pod), append(delays, int64(e.Delay))
			kinds, wakes = append(kinds, int16(e.Kind)), append(wakes, e.WakeAt)
			bys, classes, errors = append(bys, e.By), append(classes, e.Class), append(errors, e.Text)
		}
	}
	if len(ids) > 0 {
		b.Add("insert_events", pgsql.Named{
			"runs": ids, "steps": steps, "ns": ns, "kinds": kinds, "pods": pods, "attempts": attempts, "delays": delays,
			"wakes": wakes, "bys": bys, "classes": classes, "texts": errors, "now": pgsql.Instant(p.now),
		})
	}
}

// queueSignals adds what was decided about signals: their numbers, and which steps have taken
// them. Those that arrive behind the end of their run are dropped, after the others have numbers.
func (p *decisionTx) queueSignals(b *pgsql.Batch) {
	var ids pgsql.UUIDs
	var names []string
	var ns []int64
	var steps []int32
	var done []bool // the step has completed
	var late pgsql.UUIDs
	for _, r := range p.runs {
		if len(r.arriving) > len(r.decision.Arrived) {
			late = append(late, r.id)
		}
		at := map[int64]int{}
		add := func(e undelivered) {
			at[e.n] = len(ids)
			ids, names, ns = append(ids, r.id), append(names, e.id), append(ns, e.n)
			steps, done = append(steps, -1), append(done, false)
		}
		for i, e := range r.decision.Arrived {
			add(undelivered{id: r.arriving[i].id, n: e.N})
		}
		for _, t := range r.decision.Taken {
			if _, arrived := at[t.N]; !arrived {
				add(r.inbox[slices.IndexFunc(r.inbox, func(e undelivered) bool { return e.n == t.N })])
			}
			after, _ := slices.BinarySearchFunc(r.decision.Tasks, t.Step, func(of lifecycle.Task, step int32) int { return int(of.Step - step) })
			steps[at[t.N]], done[at[t.N]] = t.Step, r.decision.Tasks[after].State == lifecycle.Completed
		}
	}
	if len(ids) > 0 {
		b.Add("deliver_signals", pgsql.Named{"runs": ids, "ids": names, "ns": ns, "steps": steps, "done": done})
	}
	if p.dropped != nil && len(late) > 0 {
		b.Add("drop_undelivered", pgsql.Named{"runs": late}).QueryRow(func(row pgx.Row) error {
			var count int
			err := row.Scan(&count)
			*p.dropped += count
			return err
		})
	}
}

// knownTimers are the kinds of timers that this version knows.
var knownTimers = func() (kinds []int16) {
	for kind := lifecycle.TimerKind(1); kind <= lifecycle.TimerKindMax; kind++ {
		if kind.Known() {
			kinds = append(kinds, int16(kind))
		}
	}
	return kinds
}()

// queueTimers adds what happens to timers: those dropped, then those set.
func (p *decisionTx) queueTimers(b *pgsql.Batch) {
	var dropped, set pgsql.UUIDs
	var droppedSteps, steps []int32
	var all, kinds []int16
	var wakes pgsql.Instants
	var epochs []int64
	for _, r := range p.runs {
		for _, step := range r.decision.DropTimers {
			dropped, droppedSteps, all = append(dropped, r.id), append(droppedSteps, step), append(all, 0)
		}
		for _, t := range r.decision.Timers {
			set, steps, kinds = append(set, r.id), append(steps, t.Step), append(kinds, int16(t.Kind))
			wakes, epochs = append(wakes, t.At), append(epochs, t.Epoch)
		}
	}
	if len(dropped) > 0 {
		b.Add("delete_timers", pgsql.Named{"runs": dropped, "steps": droppedSteps, "kinds": all, "known": knownTimers})
	}
	if len(set) > 0 {
		b.Add("insert_timers", pgsql.Named{"runs": set, "steps": steps, "kinds": kinds, "wakes": wakes, "epochs": epochs})
	}
}

// queueReady adds the queue rows of what became ready.
func (p *decisionTx) queueReady(b *pgsql.Batch) {
	var (
		queues          []int16
		places          []int64
		ids             pgsql.UUIDs
		steps, handlers []int32
		suspects        []bool
	)
	for _, e := range p.enqueued {
		queues, places, ids = append(queues, e.queue), append(places, e.place), append(ids, e.run.id)
		steps, handlers, suspects = append(steps, e.step), append(handlers, e.handler), append(suspects, e.suspect)
	}
	if len(ids) > 0 {
		b.Add("insert_ready", pgsql.Named{
			"queues": queues, "fair_ids": places, "runs": ids, "steps": steps, "handlers": handlers, "suspects": suspects,
		})
	}
}
