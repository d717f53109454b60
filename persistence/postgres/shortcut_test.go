package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShortcut(t *testing.T) {
	s := newShortcut()
	rest := func(queue int16) (n int) {
		for !s.worthTrying(queue) {
			n++
		}
		return n
	}
	require.Zero(t, rest(1), "tried at once")
	s.missed(1)
	s.missed(1)
	s.missed(1)
	require.True(t, s.worthTrying(2), "each queue for itself")
	require.Equal(t, shortcutRestMin, rest(1), "three at the same time are one")
	s.missed(1)
	require.Equal(t, 2*shortcutRestMin, rest(1), "longer after a second miss in a row")
	for range 20 {
		s.missed(1)
		rest(1)
	}
	s.missed(1)
	require.Equal(t, shortcutRestMax, rest(1), "but not for ever")
	s.hit(1)
	s.missed(1)
	require.Equal(t, shortcutRestMin, rest(1), "from the start after a hit")
}
