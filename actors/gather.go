package actors

// gatherEnough is a batch that is not waited for to grow.
const gatherEnough = 64

// gathered ends the gathering of a batch.
type gathered struct{ number int64 }

// gathering is the moment between the first thing that a batch is of and its
// beginning. Callers that are answered together ask together again, and siblings
// that begin together end together: each of them a few microseconds after the
// first, and without this a commit later. It is no wait for anybody: what is ready
// to run at that moment runs first, and nothing else.
type gathering struct{ number int64 }

// begin puts the batch off, unless it has been, or is large already, or there is
// nobody to expect more from, and reports whether gathered comes.
func (g *gathering) begin(rt *runtime, self *PID, waiting int, more bool) bool {
	if g.number == 0 && more && waiting < gatherEnough {
		g.number = rt.numbers.next()
		rt.executor.Yield(self, &gathered{number: g.number})
	}
	return g.number != 0
}

// ended reports whether it was this gathering, which ends.
func (g *gathering) ended(m *gathered) bool {
	if g.number == 0 || m.number != g.number {
		return false
	}
	g.number = 0
	return true
}
