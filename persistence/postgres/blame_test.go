package postgres

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
)

// A value is to blame only if the database takes the row without it, and refuses
// it with it again.
func TestWhoIsToBlame(t *testing.T) {
	t.Parallel()
	locked := errors.New("locked")
	for name, test := range map[string]struct{ bare, again, want error }{
		"the value":                  {errTrial, persistence.ErrBadRow, nil},
		"the schema":                 {persistence.ErrBadRow, nil, persistence.ErrUnavailable},
		"what is gone by now":        {errTrial, errTrial, persistence.ErrUnavailable},
		"nobody knows":               {locked, nil, locked},
		"nobody knows the next time": {errTrial, locked, locked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := blamed(persistence.ErrBadRow, test.bare, func() error { return test.again })
			if test.want == nil {
				require.NoError(t, got)
				return
			}
			require.ErrorIs(t, got, test.want)
			require.NotErrorIs(t, got, persistence.ErrBadRow)
		})
	}
}
