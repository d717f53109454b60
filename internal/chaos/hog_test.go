package chaos

import (
	"context"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// hogConnections is the size of the pool that a pod's embedder gives to the
// engine.
const hogConnections = 3

// F30: step functions begin transactions on the embedder's pool and do not end
// them, until none is left.
func TestStepsStarveThePool(t *testing.T) {
	t.Parallel()
	r := begin(t, row{
		ID: "F30", Name: "user-starves-pool", Fault: "step functions hold every connection of the pool that was given to the engine",
		FullOnly: true, Must: "I13 I14; the engine's own connections are others, a warning names the step",
		Allowed: leasesKept(atLeast("runs ended meanwhile", 5, ""), within("a run took", 2*time.Second), atLeast("warnings with the step's name", 1, "")),
	})
	y := newYard(r, brisk(), 0)
	address, err := url.Parse(y.url)
	require.NoError(r, err)
	query := address.Query()
	query.Set("pool_max_conns", "3")
	address.RawQuery = query.Encode()
	y.url = address.String()
	pods := y.start("pod-1")
	y.trigger(pods[0], "hog", hogConnections)
	y.until("the pool is empty", patience, func() bool { return count(readLedgers(t, y.dir), "begun") == hogConnections })
	y.trigger(pods[0], "intx", 2) // they wait for a connection
	longest, ended := time.Duration(0), 0
	for began := time.Now(); time.Since(began) < spell(4*time.Second, 20*time.Second); ended++ {
		at := time.Now()
		id := y.trigger(pods[0], "diamond", 1)[0]
		y.until("a run without the pool ends", patience, func() bool {
			return y.number(`select count(*)::int from troupe.every_run where id::text = $1 and state = 'completed'`, id) == 1
		})
		longest = max(longest, time.Since(at))
	}
	r.count("runs ended meanwhile", ended)
	r.took("a run took", longest)
	r.count("warnings with the step's name", y.logged("longest_running=\"hog/a of run "))
	y.letGo("pod-1")
	y.countLeases(y.judge())
}

// hog holds a connection of the embedder's pool, with a transaction, until the
// test lets the pod's holds go.
func (p *podProcess) hog() *troupe.Workflow[string, string] {
	return troupe.Define("hog", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "a", func(ctx context.Context, in string) (string, error) {
			tx, err := p.pool.Begin(ctx)
			if err != nil {
				return "", err
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // nothing was written
			task := troupe.Task(ctx)
			p.ledger.note("begun", task.Run.String(), task.Step)
			for {
				if err := pause(ctx, 10*time.Millisecond); err != nil {
					return "", err
				}
				if _, err := os.Stat(releaseFile(p.spec.Dir, p.spec.Name)); err == nil {
					p.ledger.note("done", task.Run.String(), task.Step)
					return in, nil
				}
			}
		})
	})
}
