package sessions

import (
	"context"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
)

// Whatever is there, or being made, ends; nothing is made afterwards, and what was
// closed before is forgotten.
func TestACutEndsEveryConnection(t *testing.T) {
	t.Parallel()
	cut, far := NewCut(), make(chan net.Conn, 3)
	var lasts []context.Context
	config := &pgx.ConnConfig{}
	config.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		lasts = append(lasts, ctx)
		if network == "silent" {
			cut.All() // while it is being made
			<-ctx.Done()
			return nil, ctx.Err()
		}
		near, other := net.Pipe()
		far <- other
		return near, nil
	}
	cut.prepare(config)
	closed, err := config.DialFunc(t.Context(), "tcp", "")
	require.NoError(t, err)
	require.NoError(t, lasts[0].Err(), "a dialer may end its connection with its context")
	require.NoError(t, closed.Close())
	require.NoError(t, closed.Close())
	require.Error(t, lasts[0].Err())
	require.Empty(t, cut.open)

	_, err = config.DialFunc(t.Context(), "tcp", "")
	require.NoError(t, err)
	<-far
	_, err = config.DialFunc(t.Context(), "silent", "")
	require.ErrorIs(t, err, context.Canceled)
	_, err = (<-far).Read(make([]byte, 1))
	require.Error(t, err, "the other side sees it end")
	_, err = config.DialFunc(t.Context(), "tcp", "")
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	require.Len(t, lasts, 3, "nobody was asked")
}
