package lifecycle

import (
	"errors"
	"os"
	"strconv"
	"testing"
)

// namesSeed returns where a test keeps its seed, to be told if it fails.
func namesSeed(t *testing.T) *uint64 {
	t.Helper()
	var seed uint64
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("replay with TROUPE_TEST_SEED=%d", seed)
		}
	})
	return &seed
}

func seeds(t *testing.T, count uint64) []uint64 {
	t.Helper()
	number := func(name string) (uint64, error) {
		text, ok := os.LookupEnv(name)
		if !ok {
			return 0, errors.New("not set")
		}
		return strconv.ParseUint(text, 10, 64)
	}
	if seed, err := number("TROUPE_TEST_SEED"); err == nil {
		return []uint64{seed}
	}
	if more, err := number("TROUPE_TEST_RUNS"); err == nil {
		count = more
	}
	all := make([]uint64, count)
	for i := range all {
		all[i] = uint64(i)
	}
	return all
}
