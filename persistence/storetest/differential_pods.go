package storetest

import (
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
)

// anyPod returns the ordinal of a pod, mostly one that the stores know.
func (w *differ) anyPod() int64 {
	if len(w.state.Pods) == 0 || w.chance(15) {
		return 1 + int64(w.IntN(len(w.model.pods)))
	}
	return anyOf(w, w.state.Pods).ID
}

// claim asks for tasks, now and then with a claim id that was used before.
func (w *differ) claim() {
	pod := w.anyPod()
	limit := anyOf(w, []int{1, 2, 3, 4, 5, 7, 9, manyTasks})
	grant := persistence.GrantRequest{Claim: w.id(), Queues: []string{defaultQueue}, Limit: limit, TenantLimit: w.limit}
	request := persistence.ClaimRequest{GrantRequest: grant, Suspects: w.chance(2)}
	graphs := w.allGraphs()
	switch w.IntN(12) {
	case 0, 1:
		request.Queues = []string{anyOf(w, append(queueNames(), "nowhere"))}
	case 2:
		graphs = graphs[:1+w.IntN(len(graphs))]
	case 3:
		if len(w.state.Queue) > 0 {
			request.After = anyOf(w, w.state.Queue).FairID
		}
	case 4:
		if len(w.state.Claims) > 0 {
			old := anyOf(w, w.state.Claims)
			pod, request.Claim = old.Pod, old.ID
			w.saw("claim repeated")
		}
	}
	w.claimFor(pod, request, graphs)
}

// claimFor asks for tasks of some workflows.
func (w *differ) claimFor(pod int64, request persistence.ClaimRequest, graphs []int) {
	out := both(w, fmt.Sprintf("claim of pod %d: %+v", pod, request), func(s *side) (persistence.Claimed, error) {
		own := request
		own.Pod, own.Handlers = s.pod(int(pod)-1), s.handlers(graphs)
		out, err := s.Store.ClaimTasks(w.ctx, own)
		s.setNow(&out.Now, err)
		out.Grants = s.grants(out.Grants)
		out.Scanned = min(request.Limit-out.Scanned, 1) // what matters is whether the queue may hold more
		return out, err
	})
	w.sawRefused(out.Error)
	w.sawAll(out.Value.Discarded, "row discarded")
	for _, g := range out.Value.Grants {
		w.saw("task claimed")
		if g.Declared != "" {
			w.saw("dynamic task claimed")
		}
		if slices.ContainsFunc(w.state.Queue, func(row snapshot.QueueRow) bool { return row.Task == g.Task && row.Suspect }) {
			w.saw("suspect claimed")
		}
	}
}

// join lets a pod join, often one that does not know every workflow.
func (w *differ) join() {
	if len(w.state.Pods) >= 6 {
		return
	}
	graphs := w.allGraphs()
	if w.chance(2) {
		graphs = graphs[:w.IntN(len(graphs))]
	}
	w.joinWith(graphs)
}

func (w *differ) joinWith(graphs []int) {
	span, protocol := w.span(), persistence.Protocol
	if w.chance(8) && !w.kin {
		protocol = anyOf(w, []int16{2, 3}) // it does not know signals, or child runs
	}
	both(w, fmt.Sprintf("join with workflows %v for %v", graphs, span), func(s *side) (string, error) {
		id, now, err := s.Store.JoinPod(w.ctx, persistence.PodInfo{
			Name: fmt.Sprintf("pod \x00%d", len(s.pods)+1), Handlers: s.handlers(graphs), Queues: queueNames()[:1],
			Slots: len(graphs), TTL: span, Version: "test", Protocol: protocol,
		})
		if slices.Contains(s.pods, id) {
			return "", fmt.Errorf("pod number %d was given out before", id)
		}
		s.pods = append(s.pods, id)
		s.now = now
		return "", err
	})
	w.saw("pod joined")
}

// leave lets a pod leave, mostly not the last one.
func (w *differ) leave() {
	pod := w.anyPod()
	both(w, fmt.Sprintf("leave of pod %d", pod), func(s *side) (persistence.Wake, error) {
		wake, err := s.Store.LeavePod(w.ctx, s.pod(int(pod)-1))
		return sameWake(wake), err
	})
	w.saw("pod left")
}

func (w *differ) renew() {
	both(w, "ping", func(s *side) (string, error) { return "", s.Store.Ping(w.ctx, 16<<10) })
	w.renewPod(w.anyPod())
}

// renewPod renews a lease, forgetting some tasks and claiming to hold others.
func (w *differ) renewPod(pod int64) {
	renewal := persistence.Renewal{TTL: w.span(), Load: persistence.Load(w.IntN(3))}
	for _, h := range w.holds(pod) {
		if w.chance(5) {
			continue
		}
		one := persistence.Held{Task: h.id(), Epoch: h.task.Epoch}
		if w.chance(4) && w.taken(h) == nil {
			one.Progress = fmt.Appendf(nil, "progress %d", w.count)
		}
		if w.chance(10) {
			one.Epoch--
		}
		renewal.Held = append(renewal.Held, one)
		if w.chance(20) {
			renewal.Held = append(renewal.Held, one)
		}
	}
	out := both(w, fmt.Sprintf("renew pod %d: %+v", pod, renewal), func(s *side) (persistence.Renewed, error) {
		own := renewal
		own.Pod = s.pod(int(pod) - 1)
		out, err := s.Store.RenewPod(w.ctx, own)
		s.setNow(&out.Now, err)
		out.Expires, out.Canceling = flat(out.Expires), sortedRuns(out.Canceling)
		out.Lost, out.Unheld, out.Stopped = sortedTasks(out.Lost), sortedTasks(out.Unheld), sortedTasks(out.Stopped)
		return out, err
	})
	if out.Error == persistence.ErrPodDead.Error() {
		w.saw("dead pod refused")
		return
	}
	w.saw("lease renewed")
	w.sawAll(len(out.Value.Lost), "task found lost")
	w.sawAll(len(out.Value.Unheld), "task found unheld")
	w.sawAll(len(out.Value.Canceling), "cancel seen by a pod")
	w.sawAll(len(out.Value.Stopped), "stop seen by a pod")
}

func sortedTasks(list []persistence.Held) []persistence.Held {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b persistence.Held) int {
		if c := slices.Compare(a.Task.Run[:], b.Task.Run[:]); c != 0 {
			return c
		}
		return int(a.Task.Step) - int(b.Task.Step)
	})
	return list
}

// cancelable returns a run to cancel: one that runs, that waits to be expanded,
// that was asked before, or just any.
func (w *differ) cancelable() snapshot.Run {
	wanted := anyOf(w, []func(r snapshot.Run) bool{
		func(r snapshot.Run) bool {
			return slices.ContainsFunc(r.Tasks, func(t snapshot.Task) bool { return t.State == lifecycle.Running })
		},
		func(r snapshot.Run) bool { return !r.Core.State.Terminal() && r.Core.Canceling },
		func(r snapshot.Run) bool { return !r.Core.State.Terminal() && !r.Expanded },
		isChild,
		awaitsChild,
		func(snapshot.Run) bool { return true },
	})
	if (w.kin || w.wide) && w.chance(2) {
		wanted = anyOf(w, []func(r snapshot.Run) bool{isChild, awaitsChild})
	}
	if w.wide && w.chance(2) {
		wanted = anyOf(w, []func(r snapshot.Run) bool{mapIs(lifecycle.Running), mapIs(lifecycle.Waiting)})
	}
	if w.driven && w.chance(2) {
		wanted = machineIs(anyOf(w, []lifecycle.State{lifecycle.Running, lifecycle.Waiting, lifecycle.Completed}))
	}
	var list []snapshot.Run
	for _, r := range w.state.Runs {
		if wanted(r) {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		list = w.state.Runs
	}
	return anyOf(w, list)
}

// cancel asks a run to stop.
func (w *differ) cancel() {
	if len(w.state.Runs) == 0 {
		return
	}
	if w.calm && !w.chance(5) {
		return
	}
	r := w.cancelable()
	c := persistence.Cancel{Run: r.ID, Tenant: r.Tenant, Reason: "enough", By: "test", Grace: w.span()}
	switch w.IntN(20) {
	case 0:
		c.Tenant = "absent"
	case 1:
		c.Tenant = "nul\x00"
	case 2:
		c.Tenant = "" // an operator
	case 3:
		c.Reason, c.By = "no\x00 text \xff", "\x00"
	}
	w.ask(c, r.Expanded)
	switch w.IntN(3) {
	case 0:
		w.ask(c, r.Expanded)
	case 1:
		w.compareStates()
		w.renewPod(w.busy())
	}
}

func (w *differ) ask(c persistence.Cancel, expanded bool) {
	out := both(w, fmt.Sprintf("cancel %+v", c), func(s *side) (persistence.Canceled, error) {
		out, err := s.Store.CancelRun(w.ctx, c)
		s.setNow(&out.Now, err)
		out.Wake = sameWake(out.Wake)
		return out, err
	})
	switch {
	case out.Error == persistence.ErrRunNotFound.Error():
		w.saw("cancel by another tenant")
	case out.Value.Result == lifecycle.Moved && !expanded:
		w.saw("submission canceled")
	case out.Value.Result == lifecycle.Moved:
		w.saw("run canceled")
	case out.Value.Result == lifecycle.AlreadyYours:
		w.saw("cancel repeated")
	case out.Value.Result == lifecycle.Stale:
		w.saw("cancel too late")
	}
}
