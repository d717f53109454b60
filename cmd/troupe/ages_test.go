package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAges(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"72h": 72 * time.Hour, "3d": 72 * time.Hour, "1.5d": 36 * time.Hour, "0s": 0, "0d": 0, "-1d": -24 * time.Hour, "36500d": ageMax,
	} {
		got, err := parseAge(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "d", "1", "1w", "1h2d", "1d2h", "d1", "--1d", "1e3d", "36501d", "99999999999d"} {
		_, err := parseAge(text)
		require.Error(t, err, text)
	}
}
