package migrations

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Servers that are hard to come by; the tests of Migrate have the others.
func TestB39UnsuitableHostsAreRefusedWithTheRemedy(t *testing.T) {
	t.Parallel()
	good := host{number: 150000, version: "15.0", encoding: "UTF8", database: "shop"}
	require.NoError(t, good.problem())
	for name, test := range map[string]struct {
		spoil func(*host)
		wants []string
	}{
		"PostgreSQL 13":     {func(h *host) { h.number, h.version = 130014, "13.14" }, []string{"13.14", "too old", "upgrade the server to 15"}},
		"PostgreSQL 14":     {func(h *host) { h.number, h.version = 149999, "14.99" }, []string{"14.99", "upgrade the server to 15"}},
		"SQL_ASCII":         {func(h *host) { h.encoding = "SQL_ASCII" }, []string{"shop", "SQL_ASCII", "encoding 'UTF8'"}},
		"hot standby":       {func(h *host) { h.standby, h.readOnly = true, true }, []string{"hot standby", "connect to the primary"}},
		"read-only":         {func(h *host) { h.readOnly = true }, []string{"read-only", "default_transaction_read_only off"}},
		"several, the root": {func(h *host) { h.number, h.readOnly = 90624, true }, []string{"upgrade the server"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := good
			test.spoil(&h)
			err := h.problem()
			require.ErrorIs(t, err, ErrServer)
			for _, want := range test.wants {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestTheFilesAreNumberedWithoutGaps(t *testing.T) {
	t.Parallel()
	all, err := load()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for i, m := range all {
		require.Equal(t, i+1, m.version, m.name)
		require.Contains(t, m.sql, "{schema}", m.name)
	}
}
