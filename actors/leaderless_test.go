package actors

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cluster"
)

// A pod that hears of no leader for long says so, until it hears of one or
// leads itself.
func TestAPodSaysThatNobodyLeads(t *testing.T) {
	serially(t, func(t *testing.T, w *world) {
		other, err := w.bus.Elector(func() int64 { return 99 }).Campaign(t.Context())
		require.NoError(t, err)
		p := w.start(Config{LeaderSilence: 2 * time.Second})
		pass(7 * time.Second)
		require.NotContains(t, p.Stats().Degraded, "leader")
		pass(3 * time.Second)
		require.Contains(t, p.Stats().Degraded, "no leader was heard of for ")
		require.True(t, p.Stats().Ready)

		require.NoError(t, other.Ping(t.Context(), cluster.Ping{Epoch: other.Epoch(), Mode: cluster.ModeNone, Pods: 2}))
		pass(time.Second)
		require.NotContains(t, p.Stats().Degraded, "leader")
		pass(30 * time.Second)
		require.Contains(t, p.Stats().Degraded, "no leader was heard of")

		require.NoError(t, other.Resign(t.Context()))
		pass(5 * time.Second)
		require.True(t, p.Stats().Leading)
		pass(time.Minute)
		require.NotContains(t, p.Stats().Degraded, "leader")
	})
}

// noConnection is a listener that gets no connection.
type noConnection struct{}

func (noConnection) Listen(context.Context, func(), func(cluster.Notice)) error {
	return errors.New("too many connections")
}

// A pod that cannot listen does not report a missing leader: it cannot know.
func TestAPodThatHearsNobodySaysSo(t *testing.T) {
	serially(t, func(t *testing.T, w *world) {
		_, err := w.bus.Elector(func() int64 { return 99 }).Campaign(t.Context())
		require.NoError(t, err)
		w.listener = noConnection{}
		p := w.start(Config{LeaderSilence: 2 * time.Second})
		pass(30 * time.Second)
		require.Contains(t, p.Stats().Degraded, "no connection to listen on for ")
		require.True(t, p.Stats().Ready)
	})
}
