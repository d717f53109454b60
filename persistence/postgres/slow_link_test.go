package postgres

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// slowLink is a connection that sends what is large in two parts, with a pause between
// them that is longer than a session may be idle that holds locks.
type slowLink struct {
	net.Conn

	slow *atomic.Bool
}

const (
	slowLinkLarge = 100 << 10
	slowLinkPause = 2500 * time.Millisecond
)

// Write implements net.Conn.
func (c slowLink) Write(b []byte) (int, error) {
	if !c.slow.Load() || len(b) < slowLinkLarge {
		return c.Conn.Write(b)
	}
	n, err := c.Conn.Write(b[:len(b)/2])
	if err != nil {
		return n, err
	}
	<-time.After(slowLinkPause)
	m, err := c.Conn.Write(b[n:])
	return n + m, err
}

// newSlowFixture is a fixture whose connections are slow while slow is set.
func newSlowFixture(t *testing.T) (k *fixture, slow *atomic.Bool) {
	t.Helper()
	slow = &atomic.Bool{}
	return newFixture(openChanged(t, func(config *pgxpool.Config) {
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return slowLink{conn, slow}, err
		}
	}), storetest.Single()), slow
}

// A value that takes long to be sent is stored, whatever stores it.
func TestLargeValuesOnASlowNetwork(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("7"), 512<<10)
	for name, store := range map[string]func(t *testing.T, k *fixture, record persistence.Record){
		"completions": func(t *testing.T, k *fixture, record persistence.Record) {
			t.Helper()
			recorded := k.record(record)
			require.Equal(t, lifecycle.Moved, recorded.Answers[0].Result)
		},
		"failures": func(t *testing.T, k *fixture, record persistence.Record) {
			t.Helper()
			one := &record.Transitions[0]
			one.Report, one.Class, one.Error, one.Progress, one.Output = lifecycle.Errored, "class", "error", one.Output, nil
			k.record(record)
		},
		"triggers": func(t *testing.T, k *fixture, _ persistence.Record) {
			t.Helper()
			for _, tenant := range []string{"tenant", "stranger"} {
				list := k.draft(storetest.Single(), tenant, 40)
				for i := range list {
					list[i].Input = large[:len(large)/len(list)]
				}
				k.ask(list...)
			}
		},
		"triggers in transactions": func(t *testing.T, k *fixture, _ persistence.Record) {
			t.Helper()
			one := k.draft(storetest.Single(), "tenant", 1)[0]
			one.Input = large
			require.NoError(t, pgx.BeginFunc(k.ctx, k.user, func(tx pgx.Tx) error {
				_, err := tx.Exec(k.ctx, "set local idle_in_transaction_session_timeout = '2s'")
				require.NoError(t, err)
				_, err = k.store.TriggerInTx(k.ctx, tx, one)
				return err
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, slow := newSlowFixture(t)
			pod := k.join(time.Hour)
			k.start(storetest.Single(), "tenant", 1)
			record := k.completion(pod, k.claim(pod, 1)...)
			record.Transitions[0].Output = large
			slow.Store(true)
			store(t, k, record)
		})
	}
}
