package chaos

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// point is one value of a series.
type point struct {
	at    time.Duration // since the soak began
	value float64
}

// limit says how much a series may rise.
type limit struct {
	name, unit string
	perHour    float64 // NaN: it is shown, not judged
	settling   float64 // a rise that is no growth, however fast: buffers that reach their size
}

// fitBlocks is how many blocks the second half of a series is cut into. Of each
// block the median counts: a fault raises what it touches for a few samples,
// and samples next to each other say nearly the same.
const fitBlocks = 20

// student is the 97.5 % quantile of Student's t for few degrees of freedom, from
// 1 on; beyond them 2.1 is close enough.
var student = [...]float64{12.71, 4.3, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.2, 2.18, 2.16, 2.14, 2.13}

// trend is a straight line through the second half of a series.
type trend struct {
	Name     string  `json:"name"`
	Unit     string  `json:"unit"`
	First    float64 `json:"first"`  // median of the first tenth of the soak
	Median   float64 `json:"median"` // of the second half
	Most     float64 `json:"most"`
	PerHour  float64 `json:"per_hour"` // slope of the line
	Margin   float64 `json:"margin"`   // half of the slope's 95 % interval
	Limit    float64 `json:"limit_per_hour"`
	RiseMost float64 `json:"rise_most"` // within the second half, by the upper end of the interval
	Settling float64 `json:"settling"`  // a rise that is no growth
	Judged   bool    `json:"judged"`
	Grows    bool    `json:"grows"`
	Unclear  bool    `json:"unclear"` // the interval reaches beyond the limit: the soak was too short to tell
}

// fit judges a series by the least-squares line through its second half. It
// grows if the whole 95 % interval of the slope is above the limit, and the line
// rises by more than settling does.
func fit(series []point, l limit) trend {
	t := trend{
		Name: l.name, Unit: l.unit, Limit: l.perHour, Settling: l.settling, Judged: !math.IsNaN(l.perHour),
		Margin: math.Inf(1), RiseMost: math.Inf(1),
	}
	series = slices.DeleteFunc(slices.Clone(series), func(p point) bool { return math.IsNaN(p.value) })
	if len(series) == 0 {
		t.Unclear = t.Judged
		return t
	}
	end := series[len(series)-1].at
	var early, late []point
	for _, p := range series {
		t.Most = max(t.Most, p.value)
		if p.at <= end/10 || len(early) == 0 {
			early = append(early, p)
		}
		if p.at >= end/2 {
			late = append(late, p)
		}
	}
	t.First, t.Median = medianOf(early).value, medianOf(late).value
	blocks := blocksOf(late)
	t.PerHour, t.Margin = leastSquares(blocks)
	span := (end - late[0].at).Hours()
	rise := t.PerHour * span
	if !math.IsInf(t.Margin, 0) {
		t.RiseMost = rise + t.Margin*span
	}
	t.Grows = t.Judged && t.PerHour-t.Margin > l.perHour && rise > l.settling
	t.Unclear = t.Judged && !t.Grows && t.PerHour+t.Margin > l.perHour
	return t
}

// blocksOf are the medians of consecutive blocks of a series.
func blocksOf(series []point) []point {
	n := min(fitBlocks, len(series))
	blocks := make([]point, 0, n)
	for i := range n {
		blocks = append(blocks, medianOf(series[i*len(series)/n:(i+1)*len(series)/n]))
	}
	return blocks
}

// medianOf returns the median value of some points, at the middle of their
// times.
func medianOf(points []point) point {
	values := make([]float64, len(points))
	for i, p := range points {
		values[i] = p.value
	}
	slices.Sort(values)
	middle := len(values) / 2
	median := values[middle]
	if len(values)%2 == 0 {
		median = (values[middle-1] + values[middle]) / 2
	}
	return point{(points[0].at + points[len(points)-1].at) / 2, median}
}

// leastSquares returns the slope per hour of the line that is nearest to the
// points, and half the width of its 95 % interval, which is infinite for fewer
// than three.
func leastSquares(points []point) (slope, margin float64) {
	n := float64(len(points))
	var meanX, meanY float64
	for _, p := range points {
		meanX += p.at.Hours() / n
		meanY += p.value / n
	}
	var xx, xy, rest float64
	for _, p := range points {
		dx := p.at.Hours() - meanX
		xx += dx * dx
		xy += dx * (p.value - meanY)
	}
	if len(points) < 3 || xx == 0 {
		return 0, math.Inf(1)
	}
	slope = xy / xx
	for _, p := range points {
		off := p.value - meanY - slope*(p.at.Hours()-meanX)
		rest += off * off
	}
	quantile := 2.1
	if free := len(points) - 2; free <= len(student) {
		quantile = student[free-1]
	}
	return slope, quantile * math.Sqrt(rest/(n-2)/xx)
}

// String renders the judgement.
func (t trend) verdict() string {
	switch {
	case !t.Judged:
		return "–"
	case t.Grows:
		return "GROWS"
	case t.Unclear:
		return "ok, unclear"
	}
	return "ok"
}

// made is an hour of samples, one each ten seconds.
func made(value func(i int) float64) []point {
	series := make([]point, 360)
	for i := range series {
		series[i] = point{time.Duration(i) * 10 * time.Second, value(i)}
	}
	return series
}

func TestSlopesTellGrowthFromNoise(t *testing.T) {
	t.Parallel()
	wave := func(i int) float64 { return 5 * math.Sin(float64(i)*1.7) }
	memory := limit{"memory", "MiB", 16, 4}
	for name, c := range map[string]struct {
		series []point
		grows  bool
	}{
		"level":                       {made(func(int) float64 { return 80 }), false},
		"level with noise":            {made(func(i int) float64 { return 80 + wave(i) }), false},
		"warms up, then stays":        {made(func(i int) float64 { return 80 + min(float64(i), 120) + wave(i) }), false},
		"jumps at faults":             {made(func(i int) float64 { return 80 + wave(i) + float64(i%12/10)*float64(i) }), false},
		"rises less than the limit":   {made(func(i int) float64 { return 80 + wave(i) + 8*float64(i)/360 }), false},
		"falls":                       {made(func(i int) float64 { return 80 - float64(i)/10 }), false},
		"rises by 60 MiB an hour":     {made(func(i int) float64 { return 80 + wave(i) + 60*float64(i)/360 }), true},
		"rises only in the late half": {made(func(i int) float64 { return 80 + wave(i) + max(0, float64(i-180))/4 }), true},
		"settles by a little":         {made(func(i int) float64 { return 80 + min(3, max(0, float64(i-180))) })[:190], false},
	} {
		found := fit(c.series, memory)
		require.Equal(t, c.grows, found.Grows, "%s: %+v", name, found)
	}
	found := fit(made(func(i int) float64 { return 80 + 20*float64(i)/359 }), memory)
	require.InDelta(t, 20, found.PerHour, 0.2)
	require.Less(t, found.Margin, 0.1)
	require.True(t, found.Grows)
	require.Equal(t, "–", fit(made(func(i int) float64 { return float64(i) }), limit{"history", "MiB", math.NaN(), 0}).verdict())
}

// A soak that is too short says so instead of passing for one that was long.
func TestSlopesOfFewSamplesAreUnclear(t *testing.T) {
	t.Parallel()
	series := made(func(i int) float64 { return float64(i * i % 7) })[:12]
	found := fit(series, limit{"memory", "MiB", 16, 4})
	require.False(t, found.Grows)
	require.True(t, found.Unclear)
	require.Equal(t, "ok, unclear", found.verdict())
	require.False(t, found.mightGrow(), "it is not what a soak is for")
	found.Name = seriesRSS
	require.True(t, found.mightGrow())
	found = fit(made(func(i int) float64 { return 80 + float64(i%7)/7 })[:12], limit{seriesRSS, "MiB", 16, 4})
	require.True(t, found.Unclear)
	require.False(t, found.mightGrow(), "too little for what it would take")
	require.True(t, fit(nil, limit{seriesGoroutines, "", 16, 4}).mightGrow(), "nothing was measured")
	require.True(t, fit(nil, limit{"memory", "MiB", 16, 4}).Unclear)
	require.True(t, fit(series[:1], limit{"memory", "MiB", 16, 4}).Unclear)
}

func TestBucketsKnowQuantiles(t *testing.T) {
	t.Parallel()
	b := buckets{}
	for ms := range 1000 {
		b.add(time.Duration(ms+1) * time.Millisecond)
	}
	require.InEpsilon(t, 500, b.at(0.5), 0.06)
	require.InEpsilon(t, 950, b.at(0.95), 0.06)
	more := buckets{}
	for range 9000 {
		more.add(0)
	}
	b.merge(more)
	require.InDelta(t, 0.01, b.at(0.5), 0.001)
	require.True(t, math.IsNaN(buckets{}.at(0.5)))
	require.Equal(t, "9000", fmt.Sprint(more[0]))
}
