package memory

import (
	"bytes"
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// Watch makes the store remember which runs change, for Changed.
func (s *Store) Watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched = true
}

// Changed returns the runs that have changed since it was called last, in
// order, each once.
func (s *Store) Changed() []workflow.RunID {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.changed
	s.changed = nil
	slices.SortFunc(list, func(a, b workflow.RunID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(list)
}

// touch notes that a run changes.
func (s *Store) touch(r *run) {
	if s.watched {
		s.changed = append(s.changed, r.id())
	}
}

// RunSnapshot returns what Snapshot says about one run; false: it does not
// exist.
func (s *Store) RunSnapshot(id workflow.RunID) (snapshot.Run, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		return snapshot.Run{}, false
	}
	return r.snapshot(), true
}

// Snapshot returns everything the store keeps about runs, sorted. Payloads
// are shared with the store: read only.
func (s *Store) Snapshot() snapshot.Tables {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := snapshot.Tables{Epoch: s.epoch}
	for _, id := range s.order {
		t.Runs = append(t.Runs, s.runs[id].snapshot())
	}
	groups := make(map[int32]string, len(s.tenants))
	for name, tenant := range s.tenants {
		groups[tenant.group] = name
	}
	for name, q := range s.queues {
		t.Queue = append(t.Queue, q.snapshot(name)...)
		t.Frontiers = append(t.Frontiers, snapshot.Frontier{Queue: name, Block: q.frontier})
		for c, block := range q.counters {
			t.Blocks = append(t.Blocks, snapshot.Block{Queue: name, Tenant: groups[c.group], Lane: c.lane, Block: block})
		}
	}
	for _, row := range s.timers.rows {
		t.Timers = append(t.Timers, snapshot.Timer{
			Run: row.run, Step: row.step, Kind: row.kind, At: row.at, Epoch: row.epoch,
		})
	}
	for k, c := range s.claims {
		for _, task := range c.tasks {
			t.Claims = append(t.Claims, snapshot.Claim{Pod: k.pod, ID: k.id, Task: task.task, Epoch: task.epoch})
		}
	}
	for k, id := range s.keys {
		t.Keys = append(t.Keys, snapshot.Key{Tenant: k.tenant, Workflow: k.workflow, Key: k.text, Run: id})
	}
	for _, sub := range s.intake {
		if sub.signal {
			t.Signaled = append(t.Signaled, sub.id)
		} else {
			t.Intake = append(t.Intake, sub.id)
		}
	}
	for id, box := range s.inbox {
		for _, e := range box {
			row := snapshot.Entry{Run: id, ID: e.id, N: e.n, Name: e.name, Step: -1, Payload: e.payload}
			if e.taken {
				row.Step = e.step
			}
			t.Inbox = append(t.Inbox, row)
		}
	}
	for _, p := range s.pods {
		t.Pods = append(t.Pods, snapshot.Pod{ID: p.id, Dead: p.dead})
	}
	for _, l := range s.letters {
		t.Dead = append(t.Dead, snapshot.DeadLetter{
			Task: l.Task, Reason: l.Reason, Class: l.Class, Error: l.Error, Attempts: l.Attempts, Lost: l.Lost,
			Requeues: l.Requeues, RequeuedAs: l.RequeuedAs,
		})
	}
	t.Sort()
	return t
}

func (r *run) snapshot() snapshot.Run {
	out := snapshot.Run{
		ID: r.id(), Tenant: r.trigger.Tenant, Family: r.family, Graph: r.definition.graph, Expanded: r.expanded,
		Core: r.core, Events: slices.Clone(r.events),
	}
	for _, step := range slices.Sorted(maps.Keys(r.maps)) {
		out.Maps = append(out.Maps, r.maps[step])
	}
	m := &r.machine
	out.Machine = snapshot.Machine{
		Version: m.version, State: append([]byte(nil), m.bytes...), Taken: m.taken,
		Base: m.base.taken, BaseVersion: m.base.version, BaseState: append([]byte(nil), m.base.bytes...), BaseStarted: m.base.started,
	}
	for i, t := range r.tasks {
		out.Tasks = append(out.Tasks, snapshot.Task{Task: t, Output: r.details[i].output, Progress: r.details[i].progress, Item: append([]byte(nil), r.details[i].item...)})
	}
	return out
}

func (q *queue) snapshot(name string) []snapshot.QueueRow {
	var rows []snapshot.QueueRow
	for _, row := range q.rows {
		rows = append(rows, snapshot.QueueRow{Queue: name, FairID: row.fairID, Task: row.task, Suspect: row.suspect})
	}
	for _, row := range q.parked {
		rows = append(rows, snapshot.QueueRow{
			Queue: name, FairID: row.fairID, Task: row.task, Suspect: row.suspect, Parked: true,
		})
	}
	return rows
}

// Forget removes what would tell a run of its child runs, as a pod of another version would, for
// tests.
func (s *Store) Forget(run workflow.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intake = slices.DeleteFunc(s.intake, func(sub submission) bool { return sub.signal && sub.id == run })
}

// SetTimer stores a timer as a pod of another version would, for tests.
func (s *Store) SetTimer(t snapshot.Timer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timers.set(timer{timerKey: timerKey{t.Run, t.Step, t.Kind}, at: t.At, epoch: t.Epoch})
}

// Told reports whether DrainIntake is to look at a run, for tests.
func (s *Store) Told(id workflow.RunID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.intake, func(sub submission) bool { return sub.signal && sub.id == id })
}

// Untell removes the last word to a run from the intake, as if a pod that knows no child runs had
// ended one of it, for tests.
func (s *Store) Untell(id workflow.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.intake) - 1; i >= 0; i-- {
		if sub := s.intake[i]; sub.signal && sub.id == id {
			s.intake = slices.Delete(s.intake, i, i+1)
			return
		}
	}
}

// InHistory reports whether a run was archived, for tests.
func (s *Store) InHistory(id workflow.RunID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	return r != nil && r.archived
}
