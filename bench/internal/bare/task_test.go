package bare

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunIDsCarryTheJob(t *testing.T) {
	t.Parallel()
	for _, job := range []int64{0, 1, 255, 256, 1<<32 + 5, math.MaxInt64 >> 16} {
		for _, last := range []int32{0, 3, 255, 1001, 1<<14 - 1} {
			id := newRunID(job, last)
			require.Equal(t, job, jobOf(id))
			require.Equal(t, last, lastOf(id))
		}
	}
}
