package postgres_test

import (
	"strings"
	"testing"
	"time"

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
