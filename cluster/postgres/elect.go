package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/cluster"
)

var (
	//go:embed sql/try_lead.sql
	tryLeadSQL string
	//go:embed sql/bump_epoch.sql
	bumpEpochSQL string
	//go:embed sql/ping.sql
	pingSQL string
	//go:embed sql/resign.sql
	resignSQL string

	errTermOver = errors.New("the term is over")
)

// leaderRole names the connection of a leader, which the pod's pool gives where the
// server has none to give. A listener can be done without, and a stream is no
// connection of that kind.
const leaderRole = "leader"

// Campaign implements cluster.Elector: the leader is the pod whose session holds
// an advisory lock.
func (a *Adapter) Campaign(ctx context.Context) (cluster.Term, error) {
	settings := map[string]string{
		"idle_session_timeout":                milliseconds(a.config.SessionTimeout),
		"idle_in_transaction_session_timeout": "2000",
		"lock_timeout":                        "2000",
		"statement_timeout":                   "30000",
		"tcp_keepalives_idle":                 "2",
		"tcp_keepalives_interval":             "1",
		"tcp_keepalives_count":                "2",
	}
	conn, err := a.connect(ctx, leaderRole, settings)
	given := crowded(err) && a.config.Give != nil
	if given {
		conn, err = a.given(ctx, settings, err)
	}
	if errors.Is(err, cluster.ErrNotElected) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("connect to campaign: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, a.config.ConnectTimeout)
	defer cancel()
	if !given {
		err = a.tryLead(ctx, conn)
	}
	t := &term{conn: conn, adapter: a, key: a.leaderKey(), pod: a.config.Pod()}
	if err == nil {
		err = t.begin(ctx)
	}
	if err != nil {
		hangUp(ctx, conn) // the lock goes with the session
		return nil, err
	}
	return t, nil
}

func (a *Adapter) leaderKey() int64 { return LeaderKey(a.config.Schema) }

// tryLead takes the leader's lock in a session, or returns ErrNotElected.
func (a *Adapter) tryLead(ctx context.Context, conn *pgx.Conn) error {
	var won bool
	if err := conn.QueryRow(ctx, tryLeadSQL, a.leaderKey()).Scan(&won); err != nil {
		return fmt.Errorf("try to lead: %w", err)
	}
	if !won {
		return cluster.ErrNotElected
	}
	return nil
}

// given returns a session of the pod's pool that holds the lock and that the pool has
// given away. The pool gives one to an elected pod only. refusal is why it is asked for.
func (a *Adapter) given(ctx context.Context, settings map[string]string, refusal error) (*pgx.Conn, error) {
	var lost error
	conn, err := a.config.Give(ctx, func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		err := a.tryLead(ctx, conn)
		if errors.Is(err, cluster.ErrNotElected) {
			lost = err
			return false, nil
		}
		return err == nil, err
	})
	switch {
	case lost != nil:
		return nil, lost
	case err != nil:
		return nil, err
	case conn == nil:
		return nil, refusal
	}
	settings = maps.Clone(settings)
	settings["application_name"] = a.sessionName(leaderRole)
	if err := settle(ctx, conn, settings); err != nil {
		hangUp(ctx, conn)
		return nil, err
	}
	return conn, nil
}

// term is a session that holds the lock.
type term struct {
	adapter *Adapter
	key     int64
	pod     int64
	epoch   int64

	mu   sync.Mutex
	conn *pgx.Conn // nil: the term is over
}

// begin makes the epoch of the term known.
func (t *term) begin(ctx context.Context) error {
	bump := statement(bumpEpochSQL, t.adapter.config.Schema)
	if err := t.conn.QueryRow(ctx, bump, t.pod).Scan(&t.epoch); err != nil {
		return fmt.Errorf("bump the leader's epoch: %w", err)
	}
	return nil
}

// Epoch implements cluster.Term.
func (t *term) Epoch() int64 { return t.epoch }

// Ping implements cluster.Term. Its epoch is the term's, whatever the caller
// says. After an error the session is closed.
func (t *term) Ping(ctx context.Context, ping cluster.Ping) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil {
		return errTermOver
	}
	ping.Epoch = t.epoch
	payloads := Payloads(cluster.Notice{Ping: &ping, From: t.pod})
	deadline, cancel := context.WithTimeout(ctx, t.adapter.config.PingTimeout)
	defer cancel()
	said, err := t.conn.Exec(deadline, pingSQL, t.adapter.channel, payloads)
	if err != nil && !queueFull(err) {
		t.end(ctx)
		return fmt.Errorf("ping: %w", err)
	}
	// The session holds the lock all the same: another leader could say no more.
	t.adapter.warned.fullQueue(err != nil || said.RowsAffected() == 0)
	return nil
}

// Resign implements cluster.Term. On a session that has ended it does nothing:
// its lock is free, or will be when the server notices.
func (t *term) Resign(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil {
		return nil
	}
	defer t.end(ctx)
	last := Payloads(cluster.Notice{Ping: &cluster.Ping{Epoch: t.epoch, Resigned: true}, From: t.pod})
	ctx, cancel := context.WithTimeout(ctx, t.adapter.config.PingTimeout)
	defer cancel()
	if _, err := t.conn.Exec(ctx, resignSQL, t.key, t.adapter.channel, last[0]); err != nil {
		return fmt.Errorf("resign: %w", err)
	}
	return nil
}

func (t *term) end(ctx context.Context) {
	hangUp(ctx, t.conn)
	t.conn = nil
}
