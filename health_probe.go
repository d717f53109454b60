package troupe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/troupe-dev/troupe/internal/clock"
)

const (
	probeTimeout = time.Second
	probeFresh   = 500 * time.Millisecond
	// probeMax bounds a ping. A ping outlives the callers that wait for it: giving it
	// up would cost the connection that renews the lease, and a slow network is no
	// outage.
	probeMax = 9 * probeFresh
)

var errNoAnswer = errors.New("no answer within " + probeTimeout.String())

// probe finds out whether the database answers. Concurrent callers share one ping.
// It is safe for concurrent use.
type probe struct {
	ping  func(ctx context.Context) error // nil: there is no database
	clock clock.Clock

	mu    sync.Mutex
	asked time.Time // when the last ping ended
	err   error     // of the last ping
	open  *probing  // nil: no ping is under way
}

// probing is one ping.
type probing struct {
	since time.Time
	done  chan struct{} // closed when err is there
	err   error
}

// ask returns why the database does not answer, or nil, after probeTimeout at the
// latest.
func (p *probe) ask(ctx context.Context) error {
	if p == nil || p.ping == nil {
		return nil
	}
	p.mu.Lock()
	if p.open == nil && !p.asked.IsZero() && p.clock.Now().Sub(p.asked) < probeFresh {
		defer p.mu.Unlock()
		return p.err
	}
	if p.open == nil {
		p.open = &probing{since: p.clock.Now(), done: make(chan struct{})}
		p.clock.After(0, func() { p.put(context.WithoutCancel(ctx)) })
	}
	open := p.open
	p.mu.Unlock()
	late := make(chan struct{})
	defer p.clock.After(probeTimeout, func() { close(late) })()
	select {
	case <-open.done:
		return open.err
	case <-late:
		return errNoAnswer
	}
}

// last returns the result of the last ping, or errNoAnswer if one is late. It sends
// none.
func (p *probe) last() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open != nil && p.clock.Now().Sub(p.open.since) >= probeTimeout {
		return errNoAnswer
	}
	return p.err
}

// put sends the ping that is open.
func (p *probe) put(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeMax)
	defer cancel()
	err := p.ping(ctx)
	if sessionEnded(err) {
		err = p.ping(ctx) // a new connection tells whether the database answers
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open.err = err
	close(p.open.done)
	p.asked, p.err, p.open = p.clock.Now(), err, nil
}

// sessionEnded reports whether the connection had ended before the ping: the server
// closed it, or a middlebox dropped it while it was idle. A late answer and a refusal
// are answers.
func sessionEnded(err error) bool {
	const adminShutdown, crashShutdown = "57P01", "57P02"
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return said.Code == adminShutdown || said.Code == crashShutdown
	}
	return err != nil && !errors.Is(err, context.DeadlineExceeded) && !pgconn.Timeout(err)
}
