package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/adaptive"
)

func TestShortcut(t *testing.T) {
	s := adaptive.NewFastPath()
	rest := func(queue int16) (n int) {
		for !s.WorthTrying(queue) {
			n++
		}
		return n
	}
	require.Zero(t, rest(1), "tried at once")
	s.Missed(1)
	s.Missed(1)
	s.Missed(1)
	require.True(t, s.WorthTrying(2), "each queue for itself")
	require.Equal(t, adaptive.ShortcutRestMin, rest(1), "three at the same time are one")
	s.Missed(1)
	require.Equal(t, 2*adaptive.ShortcutRestMin, rest(1), "longer after a second miss in a row")
	for range 20 {
		s.Missed(1)
		rest(1)
	}
	s.Missed(1)
	require.Equal(t, adaptive.ShortcutRestMax, rest(1), "but not for ever")
	s.Hit(1)
	s.Missed(1)
	require.Equal(t, adaptive.ShortcutRestMin, rest(1), "from the start after a hit")
}
