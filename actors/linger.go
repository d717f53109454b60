package actors

// lingerEnough is the size of a batch that is sent at once.
const lingerEnough = 64

// linger is the moment between the first entry of a batch and its start. Callers that are
// answered together ask again together, a few microseconds apart; without it each would
// come a commit later. Only goroutines that are ready to run at that moment run first, so
// it delays no entry.
type linger struct{ waits bool }

// begin delays the batch, unless it is large already or no more entries are expected, and
// reports whether then is called later.
func (g *linger) begin(b *base, waiting int, more bool, then func()) bool {
	if !g.waits && more && waiting < lingerEnough {
		g.waits = true
		b.rt.executor.Yield(b.self, &happened{of: b, then: func() {
			g.waits = false
			then()
		}})
	}
	return g.waits
}
