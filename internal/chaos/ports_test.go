package chaos

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/cluster"
	clusterpg "github.com/troupe-dev/troupe/cluster/postgres"
	"github.com/troupe-dev/troupe/internal/host"
	"github.com/troupe-dev/troupe/migrations"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres"
)

// failSpec is what goes wrong inside of a pod, on top of its ports. The zero
// value is a pod as embedders have it.
type failSpec struct {
	Record string // crashBefore or crashAfter the record of a completion, once the test arms it
	Writes int    // the process ends in the middle of a transaction, after so many writes; 0: never
	Apart  bool   // and only between two statements of one
	Elect  string // electShared or electBumped: the pod leads without the lock, once the test arms it; electNever
	Expire bool   // the pod waits before it takes the tasks of dead pods until the test lets it
	Lead   bool   // what the pod does as the leader waits while the test arms it, and is noted
	Wakes  string // dropNotices, dropAll or dropHearing: wakes from other pods that do not arrive
	Panic  string // the actor that reaches this place panics, again and again, once the test arms it
}

// newEngine returns the pod's engine: as embedders make it, or with what fails
// between it and its ports.
func (p *podProcess) newEngine(config troupe.Config) (*troupe.Engine, error) {
	if f := p.spec.Fail; f == (failSpec{Writes: f.Writes, Apart: f.Apart}) {
		return troupe.New(p.pool, config)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := migrations.Check(ctx, p.pool, migrations.DefaultSchema); err != nil {
		return nil, err
	}
	store, err := postgres.Open(ctx, postgres.Options{Pool: p.pool, PoolSize: 6, ApplicationName: "troupe " + p.spec.Name})
	if err != nil {
		return nil, err
	}
	number := &atomic.Int64{}
	adapter, err := clusterpg.New(store.Pool(), clusterpg.Config{Schema: migrations.DefaultSchema, Pod: number.Load, Logger: config.Logger})
	if err != nil {
		return nil, err
	}
	p.closeStore = store.Close
	failing := &failingStore{Store: store, pod: p}
	ports := actors.Ports{Store: failing, Listener: adapter, Stream: adapter, Notifier: adapter, Elector: adapter}
	deaf := &deafEars{listener: adapter, stream: adapter, pings: p.spec.Fail.Wakes != dropHearing}
	if p.spec.Fail.Wakes != "" {
		ports.Listener = deaf
	}
	if p.spec.Fail.Wakes == dropAll {
		ports.Stream = deaf
	}
	if p.spec.Fail.Elect != "" {
		ports.Elector = &lawless{Elector: adapter, pod: p, store: store, number: number}
	}
	return troupe.NewOn(host.Host{Store: failing, Launch: func(ctx context.Context, options actors.Options) (*actors.Pod, error) {
		options.Ports, options.Joined = ports, number.Store
		options.Buggify = p.buggify
		return actors.Start(ctx, options)
	}}, config)
}

// buggify panics in an actor where the test wants it to.
func (p *podProcess) buggify(place string) bool {
	if place == p.spec.Fail.Panic && p.armed("panic") {
		p.ledger.note("panic", place, "")
		panic("the test wants " + place + " to fail")
	}
	return false
}

// failingStore is the store, with the failpoints of the pod.
type failingStore struct {
	persistence.Store
	pod *podProcess
}

// The places of failSpec.Record.
const (
	crashBefore = "record.before"
	crashAfter  = "record.after"
)

// RecordTransitions implements persistence.Journal: of all pods with the
// failpoint one ends per file that arms it.
func (s *failingStore) RecordTransitions(ctx context.Context, record persistence.Record) (persistence.Recorded, error) {
	s.pod.crashAt(crashBefore, record)
	recorded, err := s.Store.RecordTransitions(ctx, record)
	if err == nil {
		s.pod.crashAt(crashAfter, record)
	}
	return recorded, err
}

// FireTimers implements persistence.Timekeeping.
func (s *failingStore) FireTimers(ctx context.Context, epoch int64, limit int) (persistence.Fired, error) {
	return lead(ctx, s.pod, epoch, func(ctx context.Context) (persistence.Fired, error) {
		return s.Store.FireTimers(ctx, epoch, limit)
	})
}

// ParkTasks implements persistence.Housekeeping.
func (s *failingStore) ParkTasks(ctx context.Context, epoch int64, limit int) (persistence.Parked, error) {
	return lead(ctx, s.pod, epoch, func(ctx context.Context) (persistence.Parked, error) {
		return s.Store.ParkTasks(ctx, epoch, limit)
	})
}

// ExpirePods implements persistence.Housekeeping.
func (s *failingStore) ExpirePods(ctx context.Context, epoch int64, maxLost, limit int, by time.Time) (persistence.Expired, error) {
	if s.pod.spec.Fail.Lead { // it may wait for longer than by allows: the clock is believed
		return lead(ctx, s.pod, epoch, func(ctx context.Context) (persistence.Expired, error) {
			return s.Store.ExpirePods(ctx, epoch, maxLost, limit, time.Time{})
		})
	}
	if s.pod.spec.Fail.Expire && s.pod.armed("expire") {
		s.pod.ledger.note("waits", "", "expire")
		begun := time.Now()
		for ctx.Err() == nil && s.pod.armed("expire") {
			_ = pause(ctx, lookGap) // the loop looks at ctx itself
		}
		expired, err := s.Store.ExpirePods(ctx, epoch, maxLost, limit, by.Add(time.Since(begun)))
		s.pod.ledger.note("rescued", "", rescue(expired, err))
		return expired, err
	}
	return s.Store.ExpirePods(ctx, epoch, maxLost, limit, by)
}

// The ways of failSpec.Wakes.
const (
	dropNotices = "notices" // of notifications only pings arrive
	dropAll     = "all"     // nor does the stream bring wakes
	dropHearing = "hearing" // no notification arrives, and no ping
)

// deafEars loses wakes.
type deafEars struct {
	listener cluster.Listener
	stream   cluster.Stream
	pings    bool // arrive
}

// Listen implements cluster.Listener.
func (d *deafEars) Listen(ctx context.Context, connected func(), sink func(cluster.Notice)) error {
	return d.listener.Listen(ctx, connected, func(n cluster.Notice) {
		if n.Ping != nil && d.pings {
			sink(cluster.Notice{Ping: n.Ping, From: n.From})
		}
	})
}

// Read implements cluster.Stream.
func (d *deafEars) Read(ctx context.Context, connected func(), _ func([]cluster.Wake)) error {
	return d.stream.Read(ctx, connected, func([]cluster.Wake) {})
}

// The ways of failSpec.Elect.
const (
	electShared = "shared" // under the leader's epoch: both pass the fence
	electBumped = "bumped" // under a new epoch: the other one is fenced
	electNever  = "never"
)

// lawless is an election that every pod wins.
type lawless struct {
	cluster.Elector
	pod    *podProcess
	store  *postgres.Store
	number *atomic.Int64
}

// Campaign implements cluster.Elector.
func (l *lawless) Campaign(ctx context.Context) (cluster.Term, error) {
	if l.pod.spec.Fail.Elect == electNever || !l.pod.armed("lawless") {
		return nil, cluster.ErrNotElected
	}
	t := &lawlessTerm{pod: l.pod}
	err := l.pod.pool.QueryRow(ctx, "select epoch from troupe.leader_epoch").Scan(&t.epoch)
	if err == nil && (l.pod.spec.Fail.Elect == electBumped || t.epoch == 0) {
		t.epoch, err = l.store.BumpEpoch(ctx, l.number.Load())
	}
	if err != nil {
		return nil, err
	}
	l.pod.ledger.note("leads", "", l.pod.spec.Fail.Elect)
	return t, nil
}

// lawlessTerm has no session that could end.
type lawlessTerm struct {
	pod   *podProcess
	epoch int64
}

// Epoch implements cluster.Term.
func (t *lawlessTerm) Epoch() int64 { return t.epoch }

// Ping implements cluster.Term.
func (t *lawlessTerm) Ping(context.Context, cluster.Ping) error { return nil }

// Resign implements cluster.Term.
func (t *lawlessTerm) Resign(context.Context) error { return nil }

// tornConn ends the process in the middle of a transaction: between two of its
// statements where there are several round trips, with half of what is to be
// sent otherwise.
type tornConn struct {
	net.Conn
	pod  *podProcess
	open atomic.Bool // the server's last word was that a transaction is open
}

// Read implements net.Conn. An answer ends with ReadyForQuery, whose last byte
// says whether a transaction is open.
func (c *tornConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n >= readyForQuery && b[n-readyForQuery] == 'Z' {
		c.open.Store(b[n-1] == 'T')
	}
	return n, err
}

const readyForQuery = 6 // bytes

const betweenStatements = "between statements"

// Write implements net.Conn.
func (c *tornConn) Write(b []byte) (int, error) {
	const long = 400 // bytes: a statement with rows, not a ping
	switch n := c.pod.writes.Add(1); {
	case n < int64(c.pod.spec.Fail.Writes):
	case c.open.Load():
		c.pod.leave(betweenStatements)
	case len(b) > long && !c.pod.spec.Fail.Apart:
		_, _ = c.Conn.Write(b[:len(b)/2]) // the process ends anyway
		c.pod.leave("with half a batch sent")
	}
	return c.Conn.Write(b)
}

// dial wraps the connections of a pod that is to be torn.
func (p *podProcess) dial(config *pgx.ConnConfig) {
	if p.spec.Fail.Writes == 0 {
		return
	}
	next := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &tornConn{Conn: conn, pod: p}, nil
	}
}
