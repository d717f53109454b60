package sessions

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
)

// The last hours of 9999 are of the year 10000 east of Greenwich, which JSON does not take.
func TestInstantsAreOfYearsThatJSONTakes(t *testing.T) {
	t.Parallel()
	last := time.Date(9999, 12, 31, 23, 30, 0, 0, time.UTC)
	var read time.Time
	east := pgtype.Timestamptz{Time: last.In(time.FixedZone("east", 9*3600)), Valid: true}
	require.NoError(t, (*OptionalInstant)(&read).ScanTimestamptz(east))
	text, err := read.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, `"9999-12-31T23:30:00Z"`, string(text))
	require.True(t, read.Equal(last))
}
