package actors

// lingerEnough is the size of a batch that is sent at once.
const lingerEnough = 64

// lingered ends the wait for a batch to fill.
type lingered struct{ number int64 }

// linger is the moment between the first entry of a batch and its start. Callers that are
// answered together ask again together, a few microseconds apart; without it each would
// come a commit later. Only goroutines that are ready to run at that moment run first, so
// it delays no entry.
type linger struct{ number int64 }

// begin delays the batch, unless it is large already or no more entries are expected, and
// reports whether lingered comes.
func (g *linger) begin(rt *runtime, self *PID, waiting int, more bool) bool {
	if g.number == 0 && more && waiting < lingerEnough {
		g.number = rt.numbers.next()
		rt.executor.Yield(self, &lingered{number: g.number})
	}
	return g.number != 0
}

// ended reports whether the message ends this wait.
func (g *linger) ended(m *lingered) bool {
	if g.number == 0 || m.number != g.number {
		return false
	}
	g.number = 0
	return true
}
