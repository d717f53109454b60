package load

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

func TestDefaultsAreALoad(t *testing.T) {
	t.Parallel()
	o := Defaults()
	require.NoError(t, o.Validate())
	o.Complete()
	require.NoError(t, o.Validate())
	require.Equal(t, durationDefault, o.Duration)
	require.Equal(t, concurrentDefault, o.Concurrent)

	o = Defaults()
	o.Rate, o.Runs = 50, 10
	o.Complete()
	require.NoError(t, o.Validate())
	require.Zero(t, o.Duration, "as many runs as were asked for, however long it takes")
	require.Zero(t, o.Concurrent, "the loop is open")
	require.Zero(t, o.AtOnce, "there are no maps")

	o = Defaults()
	o.Shape = "map-100000"
	require.NoError(t, o.Validate())
	o.Complete()
	require.NoError(t, o.Validate())
	require.Equal(t, atOnceDefault, o.AtOnce)
}

// Each problem names the flag, what was given, and the remedy.
func TestValidateNamesTheFlagAndTheRemedy(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Options){
		`--shape is "ring": use one of single, chain-N, diamond, fan-N, orders, map-N, settled-N, machine-N`:                  func(o *Options) { o.Shape = "ring" },
		`--shape is "single-3": use one of single, chain-N, diamond, fan-N, orders, map-N, settled-N, machine-N`:              func(o *Options) { o.Shape = "single-3" },
		`--shape is "chain": use chain-N with N from 1 to 1000, as in chain-10`:                                               func(o *Options) { o.Shape = "chain" },
		`--shape is "fan-1001": use fan-N with N from 1 to 1000, as in fan-10`:                                                func(o *Options) { o.Shape = "fan-1001" },
		`--shape is "map-0": use map-N with N from 1 to 100000, as in map-1000, which map alone is, too`:                      func(o *Options) { o.Shape = "map-0" },
		`--shape is "settled-100001": use settled-N with N from 1 to 100000, as in settled-1000, which settled alone is, too`: func(o *Options) { o.Shape = "settled-100001" },
		`--shape is "machine-1001": use machine-N with N from 1 to 1000, as in machine-20, which machine alone is, too`:       func(o *Options) { o.Shape = "machine-1001" },
		`--at-once is 1001: use 1 to 1000`:                             func(o *Options) { o.Shape, o.AtOnce = "map", 1001 },
		`--at-once is 0: use 1 to 1000`:                                func(o *Options) { o.Shape, o.Asked = "map-7", []string{"--at-once"} },
		`--at-once is for maps: leave it out, or use --shape map-1000`: func(o *Options) { o.AtOnce = 5 },
		`the outputs of all elements are one payload: use fewer elements or a smaller --payload, or set TROUPE_PAYLOAD_LIMIT`: func(o *Options) { o.Shape, o.Payload = "settled-1000", 1050 },
		`--runs is -1: use 1 to 1000000000`:                                                                      func(o *Options) { o.Runs = -1 },
		`--concurrent is -5: use 1 to 1000000`:                                                                   func(o *Options) { o.Concurrent = -5 },
		`--tenants is 0: use 1 to 100000`:                                                                        func(o *Options) { o.Tenants = 0 },
		`--pods is 0: use 1 to 64`:                                                                               func(o *Options) { o.Pods = 0 },
		`--pods is 65: use 1 to 64`:                                                                              func(o *Options) { o.Pods = 65 },
		`--cpuprofile is "options.go", which is not a folder: make it first`:                                     func(o *Options) { o.Profiles = "options.go" },
		`--slots is 0: use 1 to 10000`:                                                                           func(o *Options) { o.Slots = 0 },
		`--payload is -1: use 0 to 1047552, or set TROUPE_PAYLOAD_LIMIT`:                                         func(o *Options) { o.Payload = -1 },
		`--payload is 1048576: use 0 to 1047552, or set TROUPE_PAYLOAD_LIMIT`:                                    func(o *Options) { o.Payload = 1 << 20 },
		`--payload is 100: use 0 to 76, or set TROUPE_PAYLOAD_LIMIT`:                                             func(o *Options) { o.Payload, o.Config = 100, troupe.Config{PayloadLimit: 1100} },
		`--failure-rate is 5: use a share between 0 and 1, as in 0.01 for one in a hundred`:                      func(o *Options) { o.FailureRate = 5 },
		`--fatal-rate is NaN: use a share between 0 and 1, as in 0.01 for one in a hundred`:                      func(o *Options) { o.FatalRate = math.NaN() },
		`--rate is -2: use 0.001 to 1000000 runs a second, as in 50, or leave it out for a closed loop`:          func(o *Options) { o.Rate = -2 },
		`--duration is -1s: use more than 0s and at most 720h, as in 30s`:                                        func(o *Options) { o.Duration = -time.Second },
		`--step-latency is -1ms-0s: use 0s to 24h`:                                                               func(o *Options) { o.StepLatency.Least = -time.Millisecond },
		`--concurrent is 2 with 4 pods: use at least one run for each pod`:                                       func(o *Options) { o.Concurrent, o.Pods = 2, 4 },
		`--tenants is 999999999999: use 1 to 100000`:                                                             func(o *Options) { o.Tenants = 999_999_999_999 },
		`--slots is 10001: use 1 to 10000`:                                                                       func(o *Options) { o.Slots = 10_001 },
		`--concurrent is 1000001: use 1 to 1000000`:                                                              func(o *Options) { o.Concurrent = 1_000_001 },
		`--runs is 1000000001: use 1 to 1000000000`:                                                              func(o *Options) { o.Runs = 1_000_000_001 },
		`--duration is 721h0m0s: use more than 0s and at most 720h, as in 30s`:                                   func(o *Options) { o.Duration = 721 * time.Hour },
		`--step-latency is 25h0m0s: use 0s to 24h`:                                                               func(o *Options) { o.StepLatency = Spread{25 * time.Hour, 25 * time.Hour} },
		`--rate is 1e-09: use 0.001 to 1000000 runs a second, as in 50, or leave it out for a closed loop`:       func(o *Options) { o.Rate = 1e-9 },
		`--rate is 0: use 0.001 to 1000000 runs a second, as in 50, or leave it out for a closed loop`:           func(o *Options) { o.Asked = []string{"--rate"} },
		`--runs is 0: use 1 to 1000000000`:                                                                       func(o *Options) { o.Asked = []string{"--runs"} },
		`--concurrent is 0: use 1 to 1000000`:                                                                    func(o *Options) { o.Asked = []string{"--concurrent"} },
		`--duration is 0s: use more than 0s and at most 720h, as in 30s`:                                         func(o *Options) { o.Asked = []string{"--duration"} },
		`--rate and --concurrent exclude each other: a rate continues however many runs are open; leave one out`: func(o *Options) { o.Rate, o.Concurrent = 5, 5 },
	} {
		o := Defaults()
		change(&o)
		require.EqualError(t, o.Validate(), want)
	}
}

func TestSpreadReadsOneOrTwoDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Spread{
		"10ms":      {10 * time.Millisecond, 10 * time.Millisecond},
		"10ms-30ms": {10 * time.Millisecond, 30 * time.Millisecond},
		"0s-1m":     {0, time.Minute},
	} {
		var s Spread
		require.NoError(t, s.Set(text))
		require.Equal(t, want, s)
		var again Spread
		require.NoError(t, again.Set(s.String()))
		require.Equal(t, s, again)
	}
	for text, want := range map[string]string{
		"10":        "use a duration such as 10ms, or two as in 10ms-30ms",
		"-5ms":      "use a duration such as 10ms, or two as in 10ms-30ms",
		"10ms-":     "use a duration such as 10ms, or two as in 10ms-30ms",
		"30ms-10ms": "30ms is more than 10ms: put the shorter one first",
	} {
		var s Spread
		require.EqualError(t, s.Set(text), want, text)
	}
	require.Equal(t, 15*time.Millisecond, (&Spread{10 * time.Millisecond, 20 * time.Millisecond}).at(0.5))
}

// The pods' shares are the whole, and each pod has one.
func TestSharesAddUp(t *testing.T) {
	t.Parallel()
	for pods := 1; pods <= 9; pods++ {
		whole, sum := Load{Pods: pods, Concurrent: 100}, 0
		for i := range pods {
			part := whole.share(i)
			require.Equal(t, i, part.Index)
			require.InDelta(t, 100/pods, part.Concurrent, 1)
			sum += part.Concurrent
		}
		require.Equal(t, 100, sum)
	}
}

func TestChanceIsEvenIndependentAndTheSameAgain(t *testing.T) {
	t.Parallel()
	const runs = 20_000
	fails, both := 0, 0
	for n := range int64(runs) {
		one := chance(n, 1, toFail) < 0.1
		require.Equal(t, one, chance(n, 1, toFail) < 0.1)
		if one {
			fails++
			if chance(n, 2, toFail) < 0.1 {
				both++
			}
		}
	}
	require.InDelta(t, 0.1*runs, fails, 150)
	require.InDelta(t, 0.01*runs, both, 60)
}
