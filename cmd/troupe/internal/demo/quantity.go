package demo

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// quantity is many measurements of one time, in seconds.
type quantity []float64

// at returns the smallest measurement that the given share of all do not
// exceed, or 0 if there are none.
func (q quantity) at(share float64) time.Duration {
	if len(q) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(q))
	rank := max(1, int(math.Ceil(share*float64(len(sorted)))))
	return time.Duration(sorted[rank-1] * float64(time.Second))
}

// duration renders a time with as many digits as are worth reading.
func duration(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// grouped renders a number with thin groups of three digits.
func grouped(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
