package load

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/troupe-dev/troupe"
)

// Options say what load is put on the engine, and where.
type Options struct {
	Load
	Out         io.Writer
	JSON        bool   // end with one line of JSON
	DatabaseURL string // of a server to use; "": start a private one
	Config      troupe.Config
	Environ     []string // of the pods
	Program     string   // of the pods
	Asked       []string // flags that were given, as in --runs: a 0 there stands for no default
}

// Load is the load that all pods make together. What one pod gets is its share
// of it, with Index set.
type Load struct {
	Index       int           `json:"index"`
	Pods        int           `json:"pods"`
	Slots       int           `json:"slots"` // of each pod
	Shape       string        `json:"shape"`
	Runs        int64         `json:"runs,omitempty"`        // 0: until Duration is over
	Duration    time.Duration `json:"duration_ns,omitempty"` // 0: until all Runs are triggered
	Concurrent  int           `json:"concurrent,omitempty"`  // runs open at once, if there is no rate
	Rate        float64       `json:"rate,omitempty"`        // runs a second; 0: as many as Concurrent allows
	Payload     int           `json:"payload"`               // bytes of an input and of each output, besides a few of our own
	AtOnce      int           `json:"at_once,omitempty"`     // elements of one map that are open at once; 0: no maps
	Tenants     int           `json:"tenants"`
	FailureRate float64       `json:"failure_rate"` // share of steps whose first attempt fails
	FatalRate   float64       `json:"fatal_rate"`   // share of runs whose last step fails for good
	StepLatency Spread        `json:"step_latency"`
	Profiles    string        `json:"profiles,omitempty"` // folder for CPU profiles of the pods; "": none
}

// Defaults of flags that were not given.
const (
	concurrentDefault = 100
	durationDefault   = 10 * time.Second
)

// Defaults returns the options of a call without flags.
func Defaults() Options {
	return Options{Load: Load{Pods: 1, Slots: 100, Shape: "diamond", Tenants: 1}}
}

// Complete fills in what depends on other options.
func (o *Options) Complete() {
	if o.Runs == 0 && o.Duration == 0 {
		o.Duration = durationDefault
	}
	if o.Rate == 0 {
		o.Concurrent = cmp.Or(o.Concurrent, concurrentDefault)
	}
	if s, err := parseShape(o.Shape); err == nil && s.isMap() {
		o.AtOnce = cmp.Or(o.AtOnce, atOnceDefault)
	}
}

// Most that makes sense of what is not bounded otherwise.
const (
	podsMax     = 64 // all are processes on this machine
	slotsMax    = 10_000
	tenantsMax  = 100_000 // each pod has an option for each
	openMax     = 1_000_000
	runsMax     = 1_000_000_000
	rateMin     = 0.001
	rateMax     = 1e6
	durationMax = 30 * 24 * time.Hour
	latencyMax  = 24 * time.Hour
	payloadOwn  = 1 << 10 // bytes that an input has besides the payload, generously

	payloadLimit = 1 << 20 // of the engine, unless it is configured
)

// Validate returns everything that is wrong, joined.
func (o Options) Validate() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if _, err := parseShape(o.Shape); err != nil {
		problems = append(problems, err)
	}
	for _, f := range []struct {
		flag        string
		value       int64
		least, most int64
		unset       bool // 0 stands for a default, unless the flag was given
	}{
		{"--runs", o.Runs, 1, runsMax, true},
		{"--concurrent", int64(o.Concurrent), 1, openMax, true},
		{"--tenants", int64(o.Tenants), 1, tenantsMax, false},
		{"--pods", int64(o.Pods), 1, podsMax, false},
		{"--slots", int64(o.Slots), 1, slotsMax, false},
	} {
		if (f.value < f.least || f.value > f.most) && !(f.unset && f.value == 0 && !o.asked(f.flag)) {
			wrong("%s is %d: use %d to %d", f.flag, f.value, f.least, f.most)
		}
	}
	for _, f := range []struct {
		flag  string
		value float64
	}{{"--failure-rate", o.FailureRate}, {"--fatal-rate", o.FatalRate}} {
		if !(f.value >= 0 && f.value <= 1) {
			wrong("%s is %v: use a share between 0 and 1, as in 0.01 for one in a hundred", f.flag, f.value)
		}
	}
	if !(o.Rate >= rateMin && o.Rate <= rateMax) && (o.Rate != 0 || o.asked("--rate")) {
		wrong("--rate is %v: use %v to %.0f runs a second, as in 50, or leave it out for a closed loop", o.Rate, rateMin, rateMax)
	}
	if o.Duration < 0 || o.Duration > durationMax || o.Duration == 0 && o.asked("--duration") {
		wrong("--duration is %v: use more than 0s and at most %.0fh, as in 30s", o.Duration, durationMax.Hours())
	}
	if o.StepLatency.Least < 0 || o.StepLatency.Most > latencyMax {
		wrong("--step-latency is %v: use 0s to %.0fh", &o.StepLatency, latencyMax.Hours())
	}
	if at, err := os.Stat(o.Profiles); o.Profiles != "" && (err != nil || !at.IsDir()) {
		wrong("--cpuprofile is %q, which is not a folder: make it first", o.Profiles)
	}
	return errors.Join(slices.Concat(problems, o.contradictions(), o.mapProblems())...)
}

func (o Options) asked(flag string) bool { return slices.Contains(o.Asked, flag) }

// contradictions are options that are wrong only together.
func (o Options) contradictions() []error {
	var problems []error
	if o.Rate > 0 && o.Concurrent > 0 {
		problems = append(problems, errors.New("--rate and --concurrent exclude each other: a rate continues however many runs are open; leave one out"))
	}
	if o.Rate == 0 && o.Concurrent > 0 && o.Concurrent < o.Pods {
		problems = append(problems, fmt.Errorf("--concurrent is %d with %d pods: use at least one run for each pod", o.Concurrent, o.Pods))
	}
	limit := cmp.Or(o.Config.PayloadLimit, payloadLimit)
	if o.Payload < 0 || o.Payload > limit-payloadOwn {
		problems = append(problems, fmt.Errorf("--payload is %d: use 0 to %d, or set TROUPE_PAYLOAD_LIMIT", o.Payload, limit-payloadOwn))
	}
	return problems
}

// share returns the load of one pod. Runs and the rate stay those of all: pods
// take every so many-th run.
func (l Load) share(index int) Load {
	l.Index = index
	whole := l.Concurrent
	l.Concurrent = whole / l.Pods
	if index < whole%l.Pods {
		l.Concurrent++
	}
	return l
}
