package troupe

import (
	"context"

	"github.com/troupe-dev/troupe/actors"
)

// Stats is what a pod counts about itself; see actors.Stats for its fields.
type Stats = actors.Stats

// Stats returns a snapshot of the pod's counters. Before Start it is empty.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	pod := e.pod
	e.mu.Unlock()
	if pod == nil {
		return Stats{}
	}
	return pod.Stats()
}

// Health says whether the pod can do its work.
type Health struct {
	Ready  bool   // claims tasks and takes triggers
	Reason string // why not, or what is degraded; "": nothing
}

// Health returns how the pod is. A pod that is not Ready while the database is
// away becomes so again by itself.
func (e *Engine) Health(_ context.Context) Health {
	pod, err := e.livePod()
	if err != nil {
		return Health{Reason: err.Error()}
	}
	if err := pod.Err(); err != nil {
		return Health{Reason: err.Error()}
	}
	stats := pod.Stats()
	return Health{Ready: stats.Ready, Reason: stats.Degraded}
}
