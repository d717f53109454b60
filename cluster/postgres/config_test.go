package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster/postgres"
)

func TestConfigReportsEveryProblem(t *testing.T) {
	t.Parallel()
	_, err := postgres.New(nil, postgres.Config{Schema: strings.Repeat("s", 59), PingTimeout: -time.Second, SlotTimeout: -1})
	for _, problem := range []string{"want 1 to 58 bytes", "this pod's number", "ping timeout -1s", "slot timeout"} {
		require.ErrorContains(t, err, problem)
	}
}

func TestConnectionsArePrepared(t *testing.T) {
	t.Parallel()
	w := freshWorld(t)
	expired := errors.New("the token has expired")
	prepare := func(c *postgres.Config) {
		c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return expired }
	}
	_, err := w.adapter(t, 1, prepare).Campaign(t.Context())
	require.ErrorIs(t, err, expired)
	_, err = w.adapter(t, 1, func(c *postgres.Config) { c.DirectURL = "postgres://%zz" }).Campaign(t.Context())
	require.ErrorContains(t, err, "direct url")
	term, err := w.adapter(t, 1, prepare, func(c *postgres.Config) { c.DirectURL = w.url }).Campaign(t.Context())
	require.NoError(t, err, "a direct address needs no token of the pool")
	require.NoError(t, term.Resign(t.Context()))
}
