package cases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/bench/internal/peer"
	"github.com/troupe-dev/troupe/bench/internal/server"
)

// Spec says which measurement a process makes.
type Spec struct {
	Case    string       `json:"case"`
	Peer    string       `json:"peer"`
	Setting string       `json:"setting"`
	Quick   bool         `json:"quick"`
	GOGC    int          `json:"gogc"`              // of the process
	Profile string       `json:"profile,omitempty"` // file for a CPU profile of the process
	Place   server.Place `json:"place"`
	Spare   server.Place `json:"spare"`
}

// Bench is what a measurement works with.
type Bench struct {
	Spec
	Entry  peer.Entry
	Across func(context.Context, Spec) (Worker, error) // starts a worker in another process

	shapes  []peer.Shape
	twins   int // for peers that are opened from now on
	size    size
	setting peer.Setting
	probe   *peer.Probe
	meter   *server.Meter
	watch   *pgx.Conn // in the peer's database, for the harness
	looks   int64     // transactions on it
}

// Open connects, for jobs of some shapes.
func Open(ctx context.Context, spec Spec, entry peer.Entry, shapes []peer.Shape) (*Bench, error) {
	setting, ok := entry.Setting(spec.Setting)
	if !ok {
		return nil, fmt.Errorf("%s has no setting %q", spec.Peer, spec.Setting)
	}
	b := &Bench{Spec: spec, Entry: entry, shapes: shapes, size: sizeOf(spec.Quick), setting: setting, probe: &peer.Probe{}}
	var err error
	if b.meter, err = server.NewMeter(ctx, spec.Place); err != nil {
		return nil, err
	}
	b.watch, err = pgx.Connect(ctx, spec.Place.URL)
	return b, err
}

// conns is the size of pools, where a peer lets its user choose.
const conns = 20

// open opens the peer.
func (b *Bench) open(ctx context.Context) (peer.Peer, error) {
	return b.openAt(ctx, b.Place.URL, false)
}

func (b *Bench) openAt(ctx context.Context, url string, elsewhere bool) (peer.Peer, error) {
	p := b.Entry.New(peer.Options{
		URL: url, Setting: b.Setting, Conns: conns, Shapes: b.shapes, Twins: b.twins, Probe: b.probe, Elsewhere: elsewhere,
	})
	if err := p.Open(ctx); err != nil {
		return nil, fmt.Errorf("open %s: %w", b.Peer, err)
	}
	return p, nil
}

// started opens the peer and lets it settle.
func (b *Bench) started(ctx context.Context, calm time.Duration) (peer.Peer, error) {
	p, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.Start(ctx); err != nil {
		return nil, fmt.Errorf("start %s: %w", b.Peer, err)
	}
	return p, pause(ctx, calm)
}

// finished waits until n jobs have run and their ends are durable.
func (b *Bench) finished(ctx context.Context, p peer.Peer, n int64) error {
	if err := b.probe.Await(ctx, n); err != nil {
		return err
	}
	return b.look(ctx, p, 0)
}

// look waits until no more than so many jobs are unfinished.
func (b *Bench) look(ctx context.Context, p peer.Peer, most int64) error {
	for {
		var left int64
		began := time.Now()
		b.looks++
		if err := b.watch.QueryRow(ctx, p.UnfinishedSQL()).Scan(&left); err != nil || left <= most {
			return err
		}
		// Looking takes time from what is measured where there are many rows.
		if err := pause(ctx, max(2*time.Millisecond, 2*time.Since(began))); err != nil {
			return err
		}
	}
}

// usage reads the counters, without the harness's own looks.
func (b *Bench) usage(ctx context.Context) (server.Usage, error) {
	u, err := b.meter.Read(ctx)
	u.Transactions -= b.looks
	return u, err
}

// reported is how long ended sessions may take to report their counters.
const reported = 200 * time.Millisecond

// costs are figures of what n tasks used up. It ends the peer, whose sessions
// report everything then.
func (b *Bench) costs(ctx context.Context, p peer.Peer, before server.Usage, n float64) ([]Figure, error) {
	peak := server.PeakMB()
	p.Close()
	if err := pause(ctx, reported); err != nil {
		return nil, err
	}
	after, err := b.usage(ctx)
	used := after.Since(before)
	figures := []Figure{
		{Name: "wal", Value: float64(used.WAL) / n, Unit: "B/task"},
		{Name: "transactions", Value: float64(used.Transactions) / n, Unit: "tx/task"},
	}
	if used.Server > 0 {
		figures = append(figures,
			Figure{Name: "cpu-server", Value: float64(used.Server.Microseconds()) / n, Unit: "µs/task"},
			Figure{Name: "cpu-client", Value: float64(used.Own.Microseconds()) / n, Unit: "µs/task"})
	}
	if peak > 0 {
		figures = append(figures, Figure{Name: "memory", Value: peak, Unit: "MB"})
	}
	return figures, err
}

// analyze brings statistics up to date, as autovacuum would soon.
func (b *Bench) analyze(ctx context.Context) error {
	_, err := b.watch.Exec(ctx, "analyze")
	b.looks++
	return err
}

// pause waits, unless the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// first returns the error that came first.
func first(errs <-chan error) error {
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// Worker is a worker in another process.
type Worker interface {
	// Starts are jobs that have started there, with the instant.
	Starts() <-chan Start
	Close() error
}

// Start is the start of a job.
type Start struct{ Job, At int64 } // At: Unix nanoseconds

var errNoStart = errors.New("jobs have not started in the other process")
