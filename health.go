package troupe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
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
	Live     bool   `json:"live"`               // false: only a new process helps
	Ready    bool   `json:"ready"`              // claims tasks and takes triggers; with ClientOnly it takes triggers
	Reason   string `json:"reason,omitempty"`   // why it is not ready, or else what is degraded; "": nothing
	Degraded string `json:"degraded,omitempty"` // what works badly, with the remedy; "": nothing
	Wake     string `json:"wake,omitempty"`     // how wakes arrive; see Stats.Mode
	Lease    string `json:"lease,omitempty"`    // of the pod; see Stats.Lease
	Pod      int64  `json:"pod,omitempty"`      // number of this start
	Client   bool   `json:"client,omitempty"`   // Config.ClientOnly: executes nothing
	Leading  bool   `json:"leading"`            // this pod is the leader
	Pods     int    `json:"pods"`               // living pods, as last heard, engines with ClientOnly among them
	Running  int    `json:"running"`            // slots in use
	Free     int    `json:"free"`               // slots not in use
	Stuck    int    `json:"stuck"`              // step functions that still run after their attempt was given up
}

// Health returns how the pod is. It pings the database for at most a second, unless
// a ping was answered within the last half second. With a DirectURL it pings through
// the pool, too, unless the pool was used within that time. A pod that is not Ready
// during an outage of the database becomes Ready by itself.
func (e *Engine) Health(ctx context.Context) Health {
	ctx = ofCaller(ctx)
	return e.health(func(p *probe) error { return p.ask(ctx) })
}

// health is Health; asked pings the database, or returns the last result.
func (e *Engine) health(asked func(*probe) error) Health {
	pod, err := e.livePod()
	e.mu.Lock()
	started, backend := e.pod, e.backend
	e.mu.Unlock()
	switch {
	case started != nil && started.Err() != nil:
		return Health{Reason: "the pod has ended with an error and will not come back: Engine.Err and the log tell which"}
	case err != nil && started != nil && !over(started):
		return stopping(started.Stats())
	case err != nil:
		return Health{Live: true, Client: e.config.ClientOnly, Reason: err.Error()}
	}
	s := pod.Stats()
	h := Health{
		Live: true, Ready: s.Ready, Reason: s.Degraded, Degraded: s.Degraded, Wake: s.Mode, Lease: s.Lease, Pod: s.Pod,
		Client: e.config.ClientOnly, Leading: s.Leading, Pods: s.Pods, Running: s.Running, Free: s.Free, Stuck: s.Stuck,
	}
	if s.Stuck > 0 && s.Degraded == "" {
		h.Degraded = fmt.Sprintf("%d step functions still run after the end of their contexts: the log names them; let them return when ctx ends", s.Stuck)
		h.Reason = h.Degraded
	}
	for _, trouble := range []string{s.Parked, e.logsTrouble(), e.nested.trouble(s)} {
		if trouble != "" {
			h.Degraded = strings.TrimPrefix(h.Degraded+"; "+trouble, "; ")
			h.Reason = h.Degraded
		}
	}
	unanswered := asked(backend.probe)
	switch {
	case s.Stalled >= stalledForGood:
		h.Live, h.Reason = false, s.Degraded+", and restart the process"
	case unanswered != nil:
		h.Ready, h.Reason = false, unreached(unanswered)
	case backend.silent(asked, pod):
		h.Ready = false
		h.Reason = "the pool does not answer, though the database does on the connection of the lease (DirectURL): " +
			"look at the proxy that the pool connects to, and whether it has connections to the server to give"
	case s.NoWrites != "":
		h.Reason = s.NoWrites
	case !s.Ready && s.Lease == lifecycle.LeaseDead.String():
		h.Reason = "others took the pod for dead and have taken over its tasks"
	case !s.Ready && s.Lease == lifecycle.LeaseLost.String():
		h.Reason = "the pod's lease has run out: it continues when a renewal succeeds"
		if !strings.Contains(s.Degraded, s.Unrenewed) { // it says that for itself after a while
			h.Reason += "; " + s.Unrenewed
		}
		if s.Degraded != "" {
			h.Reason += "; " + s.Degraded
		}
	case !s.Ready && s.Degraded != "":
		h.Reason = s.Degraded
	case !s.Ready:
		h.Reason = "the pod stops"
	case deafened(s):
		h.Live, h.Ready = false, false
		h.Reason = "every slot is held by a step function that does not return though its context has ended: restart the process"
	}
	return h
}

// over reports whether a pod has ended.
func over(pod *actors.Pod) bool {
	select {
	case <-pod.Done():
		return true
	default:
		return false
	}
}

// stopping is the health of a pod while Stop waits for it. It is not live if its
// actors hang: then it will not stop by itself.
func stopping(s actors.Stats) Health {
	h := Health{Live: s.Stalled < stalledForGood, Reason: "the pod stops", Degraded: s.Degraded, Pod: s.Pod, Running: s.Running, Free: s.Free, Stuck: s.Stuck}
	if s.Degraded != "" {
		h.Reason += "; " + s.Degraded
	}
	if !h.Live {
		h.Reason += ", and restart the process"
	}
	return h
}

// stalledForGood is how long Metrics may not return before the pod is not live.
const stalledForGood = time.Minute

// unreached says why the database could not be asked.
func unreached(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return "the database refuses the connection that renews the pod's lease: " + persistence.Shown(refused)
	}
	var certificate *tls.CertificateVerificationError
	var otherHost x509.HostnameError
	if errors.As(err, &otherHost) {
		return "the database's certificate is not accepted: it is for another host than the one that the engine connects to"
	}
	if errors.As(err, &certificate) {
		return "the database's certificate is not accepted: " + certificate.Err.Error()
	}
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "the process cannot open a connection to ask the database, as it has no file descriptor left: raise its limit (ulimit -n)"
	case errors.Is(err, errNoAnswer):
		return "the database has not answered within a second"
	case errors.Is(err, persistence.ErrUnavailable):
		return persistence.Shown(err)
	}
	return "the database does not answer"
}

// silent reports whether a pool that connects to a proxy does not answer. A proxy
// whose sessions are all busy answers a ping late, so answers that the pod got
// meanwhile count as well.
func (b *backend) silent(asked func(*probe) error, pod *actors.Pod) bool {
	if b.proxied == nil || pod.Heard(probeFresh) {
		return false
	}
	return asked(b.proxied) != nil && !pod.Heard(probeTimeout)
}

// deafened reports whether functions that ignore the end of their contexts hold
// every slot: the pod has replaced as many slots as it may, and executes nothing
// until some return.
func deafened(s Stats) bool { return s.Stuck > 0 && s.Running == 0 && s.Free == 0 }
