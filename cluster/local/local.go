// Package local implements the cluster's ports for pods that share one
// process: tests, examples and engines in memory. It has no stream, so the
// pods work in cluster.ModeNone, and nothing it says is ever late.
package local

import (
	"context"
	"errors"
	"sync"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/persistence"
)

// noticesMax bounds what a listener has not read yet; beyond it the oldest
// notice is dropped, as a hint may be.
const noticesMax = 4096

// Bus connects the pods of one process. It is safe for concurrent use.
type Bus struct {
	store persistence.Leadership

	mu        sync.Mutex
	listeners map[*listener]struct{}
	leader    *term
}

var (
	_ cluster.Listener = (*Bus)(nil)
	_ cluster.Notifier = (*Bus)(nil)
)

// NewBus returns a bus whose terms are fenced by the epochs of store.
func NewBus(store persistence.Leadership) *Bus {
	return &Bus{store: store, listeners: map[*listener]struct{}{}}
}

type listener struct {
	mu      sync.Mutex
	notices []cluster.Notice
	more    chan struct{} // holds one token while notices wait
}

// Listen implements cluster.Listener.
func (b *Bus) Listen(ctx context.Context, connected func(), sink func(cluster.Notice)) error {
	l := &listener{more: make(chan struct{}, 1)}
	b.mu.Lock()
	b.listeners[l] = struct{}{}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.listeners, l)
		b.mu.Unlock()
	}()
	connected()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.more:
		}
		for _, notice := range l.take() {
			sink(notice)
		}
	}
}

func (l *listener) take() []cluster.Notice {
	l.mu.Lock()
	defer l.mu.Unlock()
	notices := l.notices
	l.notices = nil
	return notices
}

func (l *listener) put(notice cluster.Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.notices) == noticesMax {
		l.notices = l.notices[1:]
	}
	l.notices = append(l.notices, notice)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// Notify implements cluster.Notifier.
func (b *Bus) Notify(_ context.Context, notice cluster.Notice) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.listeners {
		l.put(notice)
	}
	return nil
}

// Elector returns the elector of one pod.
func (b *Bus) Elector(pod func() int64) cluster.Elector { return &elector{bus: b, pod: pod} }

type elector struct {
	bus *Bus
	pod func() int64
}

// Campaign implements cluster.Elector.
func (e *elector) Campaign(ctx context.Context) (cluster.Term, error) {
	e.bus.mu.Lock()
	defer e.bus.mu.Unlock()
	if e.bus.leader != nil {
		return nil, cluster.ErrNotElected
	}
	epoch, err := e.bus.store.BumpEpoch(ctx, e.pod())
	if err != nil {
		return nil, err
	}
	e.bus.leader = &term{bus: e.bus, epoch: epoch, pod: e.pod()}
	return e.bus.leader, nil
}

type term struct {
	bus   *Bus
	epoch int64
	pod   int64
}

// errOver is what a term that has ended answers.
var errOver = errors.New("the term is over")

// Epoch implements cluster.Term.
func (t *term) Epoch() int64 { return t.epoch }

// Ping implements cluster.Term.
func (t *term) Ping(ctx context.Context, ping cluster.Ping) error {
	if !t.leads() {
		return errOver
	}
	return t.bus.Notify(ctx, cluster.Notice{Ping: &ping, From: t.pod})
}

// Resign implements cluster.Term.
func (t *term) Resign(ctx context.Context) error {
	if !t.leads() {
		return nil
	}
	t.bus.mu.Lock()
	t.bus.leader = nil
	t.bus.mu.Unlock()
	return t.bus.Notify(ctx, cluster.Notice{Ping: &cluster.Ping{Epoch: t.epoch, Resigned: true}, From: t.pod})
}

func (t *term) leads() bool {
	t.bus.mu.Lock()
	defer t.bus.mu.Unlock()
	return t.bus.leader == t
}

// Depose ends the leader's term, as a broken session would. It returns whether
// there was a leader.
func (b *Bus) Depose() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	led := b.leader != nil
	b.leader = nil
	return led
}
