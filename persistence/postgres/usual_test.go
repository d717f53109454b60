package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsualCase(t *testing.T) {
	u := newUsual()
	rest := func(queue int16) (n int) {
		for !u.expected(queue) {
			n++
		}
		return n
	}
	require.Zero(t, rest(1), "tried at once")
	u.missed(1)
	u.missed(1)
	u.missed(1)
	require.True(t, u.expected(2), "each queue for itself")
	require.Equal(t, usualRestMin, rest(1), "three at the same time are one")
	u.missed(1)
	require.Equal(t, 2*usualRestMin, rest(1), "longer after a second miss in a row")
	for range 20 {
		u.missed(1)
		rest(1)
	}
	u.missed(1)
	require.Equal(t, usualRestMax, rest(1), "but not for ever")
	u.met(1)
	u.missed(1)
	require.Equal(t, usualRestMin, rest(1), "from the start after a hit")
}
