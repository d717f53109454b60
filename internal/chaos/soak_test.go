package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev"
)

// soakOptions are what the command line of a soak says.
type soakOptions struct {
	minutes float64
	rate    float64 // runs per second, of all pods together
	every   time.Duration
	burst   int
	warm    int // runs of bursts before the clock starts
	seed    uint64
	json    bool
	leak    bool
}

// readSoakOptions reads the arguments after "soak" of a test binary.
func readSoakOptions(args []string) (soakOptions, error) {
	var o soakOptions
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.Float64Var(&o.minutes, "minutes", 60, "how long the load lasts")
	flags.Float64Var(&o.rate, "rate", 50, "runs per second, of all pods together")
	flags.DurationVar(&o.every, "every", time.Minute, "between two faults")
	flags.IntVar(&o.burst, "burst", 10_000, "runs of a burst of triggers")
	flags.IntVar(&o.warm, "warm", 200_000, "runs before the clock starts: what fills by the number of tasks is full then")
	flags.Uint64Var(&o.seed, "seed", 1, "of the faults")
	flags.BoolVar(&o.json, "json", false, "print a line of JSON for each sample, fault and judgement")
	flags.BoolVar(&o.leak, "leak", false, "plant a leak of memory and goroutines, which the soak has to find")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.minutes <= 0 || o.rate <= 0 || o.every <= 0 || o.burst <= 0 {
		return o, fmt.Errorf("soak %v: minutes, rate, every and burst must be positive, and nothing else follows", args)
	}
	return o, nil
}

// brisk tells whether everything has to happen sooner than in production,
// because faults come sooner.
func (o soakOptions) brisk() bool { return o.every < 30*time.Second }

// tune returns the configuration of the pods: the one of production, if a fault
// leaves time for it.
func (o soakOptions) tune() tuning {
	if o.brisk() {
		return brisk()
	}
	return tuning{Slots: 16}
}

// hold is how long a fault lasts: longer than a lease.
func (o soakOptions) hold() time.Duration {
	if o.brisk() {
		return brisk().Lease + time.Second
	}
	return 20 * time.Second
}

func (o soakOptions) duration() time.Duration { return time.Duration(o.minutes * float64(time.Minute)) }

// sampleEvery is the time between two samples: a soak has some 360.
func (o soakOptions) sampleEvery() time.Duration {
	return max(time.Second, (o.duration() / 360).Round(time.Second))
}

// soak is one soak under way.
type soak struct {
	options    soakOptions
	y          *yard
	server     *pgdev.Server
	pods       []*pod
	spared     *pod // lives from the beginning to the end
	generation []int
	chance     *rand.Rand
	bag        []soakFault
	probes     int
	sampler    *sampler
	faults     []faultLine
	began      time.Time
	printer    *soakPrinter
}

func (s *soak) seconds() float64 { return float64(time.Since(s.began).Milliseconds()/100) / 10 }

// F48: an hour of mixed load with a fault a minute leaves nothing behind, and
// nothing that is left over grows.
func TestSoak(t *testing.T) {
	args := []string{"--minutes", "1.5", "--every", "10s", "--burst", "5000", "--warm", "0"}
	asked := flag.Arg(0) == "soak" // `make soak`
	if asked {
		args = flag.Args()[1:]
	}
	options, err := readSoakOptions(args)
	require.NoError(t, err)
	r := begin(t, row{
		ID: "F48", Name: "soak", Fault: fmt.Sprintf("%g min of mixed load at %g runs/s, a random fault every %v", options.minutes, options.rate, options.every),
		Must:     "I1 to I14; what lives does not grow",
		Allowed:  []figure{none("series that grow"), none("memory or goroutines that might"), atLeast("faults", 1, "")},
		FullOnly: !asked,
	})
	s := newSoak(r, options)
	s.run()
	s.finish()
}

// newSoak starts a server and three pods with their load.
func newSoak(r *trial, options soakOptions) *soak {
	r.Helper()
	server, err := pgdev.Start(r.Context(), pgdev.Options{Private: true})
	require.NoError(r, err)
	r.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			r.Errorf("stop the server: %v", err)
		}
	})
	url, err := server.CreateDatabase(r.Context(), "soak")
	require.NoError(r, err)
	const pods = 3
	s := &soak{
		options: options, server: server, generation: make([]int, pods), pods: make([]*pod, pods),
		chance: rand.New(rand.NewPCG(options.seed, 48)),
	}
	kept, err := os.Create(filepath.Join(r.dir, "soak.jsonl"))
	require.NoError(r, err)
	r.Cleanup(func() { _ = kept.Close() }) // each line is written by itself
	s.printer = &soakPrinter{json: options.json, out: os.Stdout, kept: kept}
	s.y = newYardOn(r, url, options.tune(), 0)
	starts := 0
	s.y.each = func(spec *podSpec) {
		starts++
		spec.Soak = &soakSpec{
			Rate: options.rate / pods, SampleEvery: options.sampleEvery(), Leak: options.leak,
			Samples: filepath.Join(s.y.dir, fmt.Sprintf("%03d.samples", starts)),
		}
	}
	for i := range s.pods {
		s.pods[i] = s.launch(i)
	}
	s.spared = s.pods[0]
	s.printer.begin(options)
	s.warm()
	s.began = time.Now()
	s.sampler = newSampler(s.y, s.spared.name)
	return s
}

// warm lets the pods execute many tasks. The actor system's registry of names
// has 32,768 small maps, each made when the first name falls into it, and the
// memory of what runs returned is bounded in bytes: at a soak's rate both would
// take hours to reach their size.
func (s *soak) warm() {
	s.y.t.Helper()
	for range (s.options.warm + s.options.burst - 1) / s.options.burst {
		s.burst(nil)
		s.y.until("a burst has ended", soakWait, func() bool {
			return s.y.number(`select count(*)::int from troupe.workflow_runs where state < 'completed'`) < 100
		})
	}
}

// run lets the load go on, with faults on one side and samples on the other.
func (s *soak) run() {
	s.y.t.Helper()
	done := make(chan struct{})
	struck := make(chan faultLine)
	go func() { // FailNow in here ends only this goroutine: the other one sees that it ended
		defer close(struck)
		ticks := time.NewTicker(s.options.every)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				struck <- s.strike()
			case <-done:
				return
			}
		}
	}()
	samples := time.NewTicker(s.options.sampleEvery())
	defer samples.Stop()
	end := time.NewTimer(s.options.duration())
	defer end.Stop()
	stopping := false
	for {
		select {
		case <-samples.C:
			s.printer.sample(s, s.sampler.look())
		case <-end.C:
			stopping = true
			close(done)
		case line, more := <-struck:
			switch {
			case more:
				s.faults = append(s.faults, line)
				s.printer.fault(line)
			case stopping && !s.y.t.Failed():
				return
			default:
				s.y.t.FailNow()
			}
		}
	}
}

// finish ends the load and judges everything.
func (s *soak) finish() {
	t := s.y.t
	t.Helper()
	trends := s.sampler.trends(s.options.duration())
	s.printer.trends(trends)
	for _, p := range s.pods {
		p.tell("quiet")
	}
	for _, p := range s.pods {
		s.hear(p, "quiet")
	}
	v := s.judge()
	var grow, unclear []string
	might := 0
	for _, one := range trends {
		if one.Unclear {
			unclear = append(unclear, one.Name)
		}
		if one.mightGrow() {
			might++
		}
		if one.Grows {
			grow = append(grow, fmt.Sprintf("%s %+.3g %s/h", one.Name, one.PerHour, one.Unit))
		}
	}
	s.printer.end(s, v)
	t.count("series that grow", len(grow))
	t.count("memory or goroutines that might", might)
	t.count("faults", len(s.faults))
	t.note("%d of %d series unclear", len(unclear), len(trends))
	t.Logf("unclear: %s", strings.Join(unclear, ", "))
	if len(grow) > 0 {
		t.note("grow: %s", strings.Join(grow, ", "))
	}
	require.Empty(t, grow, "what grows")
}
