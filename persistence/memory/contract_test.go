package memory_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence/memory"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		t.Helper()
		h := newClock().harness()
		t.Cleanup(func() {
			tables, err := h.Snapshot(t.Context())
			require.NoError(t, err)
			require.Empty(t, snapshot.CheckTimersNeverEarly(tables))
		})
		return h
	})
}

// clock is the database's clock of one test: it moves a microsecond at each
// reading, as instants of a database do, and otherwise when told.
type clock struct{ passed atomic.Int64 }

func newClock() *clock { return &clock{} }

func (c *clock) now() time.Time {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return start.Add(time.Duration(c.passed.Add(int64(time.Microsecond))))
}

func (c *clock) advance(d time.Duration) { c.passed.Add(int64(d)) }

func (c *clock) harness() storetest.Harness {
	store := memory.New(memory.Options{Now: c.now, Refuse: refuseBadPayload})
	return storetest.Harness{
		Store: store,
		Begin: func(context.Context) (storetest.Tx, error) {
			tx := store.Begin()
			return storetest.Tx{
				Value:    tx,
				Commit:   func(context.Context) error { return tx.Commit() },
				Rollback: func(context.Context) error { return tx.Rollback() },
			}, nil
		},
		Advance:  func(_ context.Context, d time.Duration) error { c.advance(d); return nil },
		SetTimer: func(_ context.Context, timer snapshot.Timer) error { store.SetTimer(timer); return nil },
		Forget:   func(_ context.Context, run workflow.RunID) error { store.Forget(run); return nil },
		Snapshot: func(context.Context) (snapshot.Tables, error) { return store.Snapshot(), nil },
		Block: func(_ context.Context, b storetest.Blocked) (func(), error) {
			store.Block(memory.Blocked(b))
			return func() { store.Unblock(memory.Blocked(b)) }, nil
		},
	}
}

func refuseBadPayload(payload []byte) error {
	if bytes.Equal(payload, []byte(storetest.BadPayload)) {
		return errors.New("bad payload")
	}
	return nil
}
