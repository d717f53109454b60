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
	// probeMax bounds a question. It goes on when nobody waits for it any more: giving
	// it up costs the connection, which is the lease's, and a network that is slow is
	// not away.
	probeMax = 9 * probeFresh
)

var errNoAnswer = errors.New("no answer within " + probeTimeout.String())

// probe asks whether the database answers. Whoever asks at the same time shares
// the question. It is safe for concurrent use.
type probe struct {
	ping  func(ctx context.Context) error // nil: there is nothing to ask
	clock clock.Clock

	mu    sync.Mutex
	asked time.Time // when the last question was answered
	err   error     // what it was answered with
	open  *probing  // nil: no question is open
}

// probing is one question.
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

// last returns what the last question was answered with, or that it is not, and asks
// nothing.
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

// put puts the question that is open.
func (p *probe) put(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeMax)
	defer cancel()
	err := p.ping(ctx)
	if sessionEnded(err) {
		err = p.ping(ctx) // whether the database answers, another one tells
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open.err = err
	close(p.open.done)
	p.asked, p.err, p.open = p.clock.Now(), err, nil
}

// sessionEnded reports whether a connection had ended before it was asked: by the
// server's last word, or by somebody between, who forgets those that rest. An answer
// that is late, and a refusal, are answers.
func sessionEnded(err error) bool {
	const adminShutdown, crashShutdown = "57P01", "57P02"
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return said.Code == adminShutdown || said.Code == crashShutdown
	}
	return err != nil && !errors.Is(err, context.DeadlineExceeded) && !pgconn.Timeout(err)
}
