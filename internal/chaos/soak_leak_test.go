package chaos

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// F48: a soak would find a leak. One of two pods has one of memory and goroutines,
// and is measured and judged as the pod of a soak is, so much faster that seconds
// have as much of it as the limits ask for; the other one is sound.
func TestSoakFindsALeak(t *testing.T) {
	t.Parallel()
	const lasts, every = 16 * time.Second, 100 * time.Millisecond
	r := begin(t, row{
		ID: "F48", Name: "planted-leak", Fault: "one of two pods keeps 1 MiB and a goroutine more every 100 ms",
		FullOnly: true, Must: "the judgement of the soak says that these grow, and none of the other pod's",
		Allowed: []figure{exactly("leaks found", 2), none("growth found in the sound pod")},
	})
	y := newYard(r, brisk(), 0)
	y.each = func(s *podSpec) {
		s.Soak = &soakSpec{Rate: 10, SampleEvery: every, Samples: filepath.Join(y.dir, s.Name+".samples"), Leak: s.Name == "leaking"}
	}
	leaking := y.start("leaking", "sound")[0]
	samplers := []*sampler{newSampler(y, "leaking"), newSampler(y, "sound")}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for began := time.Now(); time.Since(began) < lasts; <-ticks.C {
		for _, s := range samplers {
			s.look()
		}
	}
	var grow [2][]string // the live heap is not among them: seconds have too few collections
	for i, s := range samplers {
		for _, one := range s.trends(lasts) {
			if one.Grows && (one.Name == seriesRSS || one.Name == seriesGoroutines) {
				grow[i] = append(grow[i], one.Name)
			}
		}
	}
	r.count("leaks found", len(grow[0]))
	r.count("growth found in the sound pod", len(grow[1]))
	r.note("grow: %s", strings.Join(slices.Concat(grow[0], grow[1]), ", "))
	leaking.kill() // it would not give back what it took
	y.quiet(patience)
	(&soak{y: y}).judge()
}
