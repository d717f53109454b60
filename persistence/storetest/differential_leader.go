package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
)

// manyTasks is a limit that no operation of the leader reaches.
const manyTasks = 1000

// some is a limit of an operation of the leader, now and then a small one.
func (w *differ) some() int {
	if w.chance(3) {
		return 1 + w.IntN(4)
	}
	return manyTasks
}

// bump elects another leader.
func (w *differ) bump() {
	both(w, "another leader", func(s *side) (string, error) {
		epoch, err := s.Store.BumpEpoch(w.ctx, 1)
		if len(s.epochs) > 0 && epoch <= s.epochs[len(s.epochs)-1] {
			return "", fmt.Errorf("epoch %d does not grow", epoch)
		}
		s.epochs = append(s.epochs, epoch)
		return "", err
	})
}

// reign returns how many elections ago the leader was elected that asks: now
// and then one that was deposed.
func (w *differ) reign() int {
	if len(w.model.epochs) > 1 && w.chance(8) {
		return 1
	}
	return 0
}

func (s *side) epoch(reign int) int64 { return s.epochs[len(s.epochs)-1-reign] }

// pass lets whole hours pass in both stores.
func (w *differ) pass(hours int) {
	if hours == 0 {
		return
	}
	w.end() // Advance cannot reach what is not committed
	both(w, fmt.Sprintf("%d hours pass", hours), func(s *side) (string, error) {
		if err := s.Advance(w.ctx, time.Duration(hours)*time.Hour); err != nil {
			return "", err
		}
		out, err := s.Store.DrainIntake(w.ctx, 0)
		s.now = out.Now
		return "", err
	})
}

// renewSome keeps most pods alive.
func (w *differ) renewSome() {
	for _, pod := range w.state.Pods {
		if !pod.Dead && !w.chance(5) {
			w.renewPod(pod.ID)
		}
	}
	w.compareStates()
}

// fire fires what is due.
func (w *differ) fire() {
	hours := w.IntN(3)
	if w.stopping() {
		hours = max(hours, 1)
	}
	w.pass(hours)
	reign, limit, waiting := w.reign(), w.some(), w.waiting()
	out := both(w, fmt.Sprintf("fire %d timers, reign %d", limit, reign), func(s *side) (persistence.Fired, error) {
		out, err := s.Store.FireTimers(w.ctx, s.epoch(reign), limit)
		s.setNow(&out.Now, err)
		if slices.ContainsFunc(out.Late, func(late time.Duration) bool { return late < 0 }) {
			return out, fmt.Errorf("a timer fired early: %v", out.Late)
		}
		out.Next, out.Wake = flat(out.Next), sameWake(out.Wake)
		out.Late = make([]time.Duration, len(out.Late))
		return out, err
	})
	w.sawRefused(out.Error)
	w.sawAll(out.Value.Count, "timer fired")
	w.compareStates()
	w.sawDeadlines(waiting)
	w.renewSome()
}

// sawRefused counts a call that was refused to a leader or a pod.
func (w *differ) sawRefused(kind string) {
	switch kind {
	case persistence.ErrDeposed.Error():
		w.saw("leader deposed")
	case persistence.ErrPodDead.Error():
		w.saw("dead pod refused")
	}
}

// expire lets leases run out.
func (w *differ) expire() {
	w.pass(w.IntN(3))
	w.compareStates()
	w.renewSome()
	reign, limit, maxLost := w.reign(), w.some(), 1+w.IntN(3)
	what := fmt.Sprintf("expire pods, %d tasks at most, at most %d losses, reign %d", limit, maxLost, reign)
	out := both(w, what, func(s *side) (persistence.Expired, error) {
		out, err := s.Store.ExpirePods(w.ctx, s.epoch(reign), maxLost, limit, time.Time{})
		s.setNow(&out.Now, err)
		out.NextExpiry, out.Wake = flat(out.NextExpiry), sameWake(out.Wake)
		if out.Tasks == limit { // there may be more, and a store may say so
			out.NextExpiry = present
		}
		out.Pods = slices.Clone(out.Pods)
		for i := range out.Pods {
			out.Pods[i] = s.ordinal(out.Pods[i])
		}
		slices.Sort(out.Pods)
		return out, err
	})
	w.sawRefused(out.Error)
	w.sawAll(len(out.Value.Pods), "pod expired")
	w.sawAll(out.Value.Tasks, "task taken from a dead pod")
	if out.Error == "" && out.Value.Live == 0 {
		w.compareStates()
		w.joinWith(w.allGraphs())
	}
}

// park moves rows that no pod can execute out of the way, or back.
func (w *differ) park() {
	waits := slices.ContainsFunc(w.state.Queue, func(row snapshot.QueueRow) bool { return row.Parked })
	if waits && len(w.state.Pods) < 8 {
		w.joinWith(w.allGraphs())
	}
	// In which order a few are moved at a time is open where a handler serves
	// several queues.
	reign := w.reign()
	out := both(w, fmt.Sprintf("park tasks, reign %d", reign), func(s *side) (persistence.Parked, error) {
		out, err := s.Store.ParkTasks(w.ctx, s.epoch(reign), manyTasks)
		out.Wake = sameWake(out.Wake)
		return out, err
	})
	w.sawRefused(out.Error)
	w.sawAll(out.Value.Parked, "row parked")
	w.sawAll(out.Value.Unparked, "row unparked")
	w.parkedWork("")
}

// sawEnd counts how a run ended.
func (w *differ) sawEnd(r *snapshot.Run) {
	switch r.Core.State {
	case lifecycle.Completed:
		w.saw("run completed")
	case lifecycle.Failed:
		w.saw("run failed")
	case lifecycle.Canceled:
		w.saw("run canceled at its end")
	case lifecycle.Pending, lifecycle.Queued, lifecycle.Running, lifecycle.Backoff, lifecycle.Sleeping,
		lifecycle.Waiting, lifecycle.Skipped:
	}
	for i := range r.Tasks {
		if r.Tasks[i].State == lifecycle.Failed && lifecycle.Handled(r.Tasks[i].Children) {
			w.saw("failure handled by a step")
		}
	}
}
