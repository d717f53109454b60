package storetest

import (
	"fmt"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/persistence"
)

// situation compares why a run does not move, down to the sentences.
func (w *differ) situation() {
	if len(w.state.Runs) == 0 {
		return
	}
	r := anyOf(w, w.state.Runs)
	tenant := anyOf(w, []string{r.Tenant, r.Tenant, "", "absent", "nul\x00"})
	type told struct {
		Situation explain.Situation
		Causes    []explain.Cause
	}
	out := both(w, fmt.Sprintf("situation of %v of %q", r.ID, tenant), func(s *side) (told, error) {
		found, err := s.Store.Situation(w.ctx, tenant, r.ID)
		if err != nil {
			return told{}, err
		}
		causes := []explain.Cause{}
		for _, reason := range explain.Explain(found) {
			causes = append(causes, reason.Cause)
		}
		return told{s.flatSituation(found), causes}, nil
	})
	if out.Error != "" {
		return
	}
	for _, cause := range out.Value.Causes {
		if cause == explain.CauseNone {
			w.diverge("nothing explains a step of %v: %+v", r.ID, out.Value.Situation)
		}
	}
	w.saw("situation read")
}

// flatSituation is a situation without what differs by nature: numbers of pods
// and handlers, and instants.
func (s *side) flatSituation(found explain.Situation) explain.Situation {
	found.Now, found.StartsAt, found.Fenced, found.Leader = flat(found.Now), flat(found.StartsAt), flat(found.Fenced), 0
	found.LeaderLock = nil
	for i := range found.Tasks {
		t := &found.Tasks[i]
		t.Pod, t.Handler = s.ordinal(t.Pod), 0
		t.QueuedAt, t.StartedAt, t.Timer, t.Expires = flat(t.QueuedAt), flat(t.StartedAt), flat(t.Timer), flat(t.Expires)
		if t.Class == persistence.ClassBadRow {
			t.Error = ""
		}
	}
	for i := range found.Pods {
		p := &found.Pods[i]
		p.ID, p.Expires = s.ordinal(p.ID), flat(p.Expires)
		for j := range p.Handlers {
			p.Handlers[j] = 0
		}
	}
	for i := range found.Handlers {
		found.Handlers[i] = explain.Handler{LastSeen: flat(found.Handlers[i].LastSeen)}
	}
	return found
}
