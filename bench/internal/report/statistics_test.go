package report_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/bench/internal/report"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 3, report.Median([]float64{9, 1, 3}), 0)
	require.InDelta(t, 2.5, report.Median([]float64{4, 1, 2, 3}), 0)
	require.InDelta(t, 7, report.Median([]float64{7}), 0)
	require.True(t, math.IsNaN(report.Median(nil)))
}

func TestMedianLeavesItsInputAlone(t *testing.T) {
	t.Parallel()
	values := []float64{3, 1, 2}
	report.Median(values)
	report.Quantile(values, 0.5)
	require.Equal(t, []float64{3, 1, 2}, values)
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for q, want := range map[float64]float64{0: 1, 0.01: 1, 0.5: 50, 0.99: 99, 0.991: 100, 1: 100} {
		require.InDelta(t, want, report.Quantile(hundred, q), 0, "q=%v", q)
	}
	require.InDelta(t, 5, report.Quantile([]float64{5}, 0.99), 0)
	require.True(t, math.IsNaN(report.Quantile(nil, 0.5)))
}
