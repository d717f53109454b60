package cluster

// Hearing tells a pod whether it has missed wakes of the leader. The zero
// value has heard nothing. It is for one goroutine; a pod starts a new one
// whenever its listener reconnects.
type Hearing struct {
	leader int64 // pod
	ping   Ping
	heard  int64 // wakes of this leader's term
	known  bool
}

// Hear takes one notice and reports whether the pod must sweep: it hears a
// leader, an epoch or a mode for the first time, or fewer wakes than the
// leader has sent. Pings of an earlier leader are ignored.
func (h *Hearing) Hear(n Notice) (sweep bool) {
	if h.known && n.From == h.leader {
		h.heard += int64(len(n.Wakes))
	}
	p := n.Ping
	if p == nil || h.known && p.Epoch < h.ping.Epoch {
		return false
	}
	sweep = !h.known || p.Epoch != h.ping.Epoch || p.Mode != h.ping.Mode || h.heard < p.Relayed
	if !h.known || p.Epoch != h.ping.Epoch {
		h.heard = 0
	}
	h.known, h.leader, h.ping = true, n.From, *p
	// More than the ping names were heard when one was on its way while the
	// leader counted.
	h.heard = max(h.heard, p.Relayed)
	return sweep
}

// Ping is the last ping of the current leader; false: none was heard.
func (h *Hearing) Ping() (Ping, bool) { return h.ping, h.known }
