package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe"
)

// soakSpec is the order of a pod of a soak: load at a rate instead of callers that
// wait, and how often it measures itself.
type soakSpec struct {
	Rate        float64       // runs per second
	SampleEvery time.Duration // between two lines of Samples
	Samples     string        // the file they are added to
	Leak        bool          // plants a leak of goroutines and memory

	pod soakPod // of the process that is told
}

// metrics returns what the engine of a soak's pod measures into.
func (s *soakSpec) metrics() troupe.Metrics {
	if s == nil {
		return nil
	}
	s.pod.meter = newSoakMeter()
	return s.pod.meter
}

// register makes the workflows known that rest, and in a soak those that only a
// soak has.
func (s *soakSpec) register(p *podProcess) error {
	workflows := p.restShapes()
	if s != nil {
		workflows = append(workflows, p.soakShapes()...)
	}
	for _, w := range workflows {
		handle, err := troupe.Register(p.engine, w)
		if err != nil {
			return err
		}
		p.shapes.handles[w.Name()] = handle
	}
	return nil
}

// start begins the load and the samples; both end with the context.
func (s *soakSpec) start(ctx context.Context, p *podProcess) {
	if s != nil {
		s.pod.pod = p
		go s.pod.sample(ctx)
		p.callers.Go(func() { s.pod.load(ctx) })
	}
}

// obey does what only a soak says: "burst N" triggers runs of one step in
// batches, "probe N" tells how long a run takes right now.
func (s *soakSpec) obey(words []string) {
	if s == nil || len(words) != 2 {
		return
	}
	n, _ := strconv.Atoi(words[1]) // the test sends numbers
	switch words[0] {
	case "burst":
		go s.pod.burst(n)
	case "probe":
		go s.pod.probe(n)
	}
}

// soakWait is how long a caller of a soak waits for one run: longer than any
// fault lasts.
const soakWait = 3 * time.Minute

// outstandingMax bounds the runs that one pod waits for. Beyond it triggers
// wait, as those of a server with a bounded number of requests do.
const outstandingMax = 2000

// soakPod is the load and the meter of a pod in a soak.
type soakPod struct {
	pod          *podProcess
	meter        *soakMeter
	calls        atomic.Int64
	acked, ended atomic.Int64
	kept         [][]byte // what a planted leak holds
}

// fate is how a run of a soak has to end.
type fate string

const (
	fateCompleted fate = "completed"
	fateFailed    fate = "failed"
	fateEither    fate = "either" // it is canceled while it runs
)

// soakTurns are the workflows of the load, in turn.
var soakTurns = [...]string{
	"single", "diamond", "orders", "nap", "flaky", "single", "bulk", "tx", "orders", "intx", "single", "diamond", "canceled", "branch",
}

// load triggers runs at the pod's rate.
func (s *soakPod) load(ctx context.Context) {
	permits := make(chan struct{}, outstandingMax)
	ticks := time.NewTicker(time.Duration(float64(time.Second) / s.pod.spec.Soak.Rate))
	defer ticks.Stop()
	for ctx.Err() == nil && !s.pod.isQuiet() {
		select {
		case <-ticks.C:
		case <-s.pod.quiet:
			return
		case <-ctx.Done():
			return
		}
		permits <- struct{}{}
		s.pod.callers.Go(func() {
			defer func() { <-permits }()
			s.call(ctx)
		})
	}
}

// call triggers one run, cancels it if it is one of those, and waits for its
// end.
func (s *soakPod) call(ctx context.Context) {
	n := s.calls.Add(1)
	shape := soakTurns[n%int64(len(soakTurns))]
	in, want := s.input(shape, n)
	tenant := troupe.Tenant("tenant-" + strconv.FormatInt(n%7, 10))
	run := s.trigger(ctx, shape, in, tenant)
	if run == nil {
		return
	}
	s.acked.Add(1)
	s.pod.ledger.note("acked", run.ID().String(), string(want))
	if shape == "canceled" {
		_ = pause(ctx, time.Duration(hashOf(in)%400)*time.Millisecond) // the cancel sees the end of ctx
		if run.Cancel(ctx, "the soak cancels it") == nil {
			s.pod.ledger.note("asked", run.ID().String(), "cancel")
		}
	}
	s.await(ctx, run, in, want)
}

// trigger asks until the answer is known. It returns nil if the pod stops, or
// if the caller's own transaction failed.
func (s *soakPod) trigger(ctx context.Context, shape, in string, tenant troupe.TriggerOption) *troupe.Run[string] {
	if shape == "tx" {
		run, err := s.pod.triggerInTx(ctx, in, tenant)
		if err != nil {
			return nil // rolled back, or unknown: the tables must agree either way
		}
		return run
	}
	for ctx.Err() == nil {
		run, err := s.pod.shapes.byName(shape).RunNoWait(ctx, in, troupe.Key(keyOf(in)), tenant)
		refused := new(troupe.TriggerError)
		switch {
		case err == nil:
			return run
		case errors.Is(err, troupe.ErrNotStarted), errors.As(err, &refused) && refused.Code == troupe.Stopping:
			return nil
		case errors.As(err, &refused) && refused.Code != troupe.Unavailable && refused.Code != troupe.Overloaded:
			s.pod.ledger.note("wrong", keyOf(in), err.Error())
			return nil
		}
		_ = pause(ctx, 50*time.Millisecond) // the loop looks at ctx itself
	}
	return nil
}

func (s *soakPod) await(ctx context.Context, run *troupe.Run[string], in string, want fate) {
	ctx, cancel := context.WithTimeoutCause(ctx, soakWait, errStuck)
	defer cancel()
	got, err := run.Await(ctx)
	id := run.ID().String()
	completed := err == nil && got == in && want != fateFailed
	failed := errors.Is(err, troupe.ErrRunFailed) && want == fateFailed
	canceled := errors.Is(err, troupe.ErrRunCanceled) && want == fateEither
	switch {
	case completed || failed || canceled:
		s.ended.Add(1)
		s.pod.ledger.note("ended", id, "")
	case err == nil:
		s.pod.ledger.note("wrong", id, got[:min(len(got), 200)])
	case errors.Is(err, errStuck):
		s.pod.ledger.note("stuck", id, "")
	case errors.Is(err, troupe.ErrRunFailed), errors.Is(err, troupe.ErrRunCanceled), errors.Is(err, troupe.ErrNoOutput):
		s.pod.ledger.note("wrong", id, err.Error())
	}
}

// input returns the input of a run, and how it has to end: its key, when it was
// triggered, what becomes of it, and for bulk up to 64 kB that do not compress
// well.
func (s *soakPod) input(shape string, n int64) (string, fate) {
	key := fmt.Sprintf("%s-%d-%d", s.pod.spec.Name, os.Getpid(), n)
	chance, want, pad := hashOf(key)%100, fateCompleted, ""
	switch shape {
	case "orders":
		if chance < 10 {
			want = fateFailed
		}
	case "canceled":
		want = fateEither
	case "bulk":
		pad = noise(key, int(hashOf(key+"size")%(63<<10)))
	}
	return fmt.Sprintf("%s|%d|%s|%s|%d", key, time.Now().UnixNano(), want, pad, n%10), want
}

func keyOf(in string) string {
	key, _, _ := strings.Cut(in, "|")
	return key
}

// field returns a part of an input.
func field(in string, i int) string { return strings.SplitN(in, "|", 5)[i] }

func hashOf(text string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(text)) // it never fails
	return hash.Sum64()
}

// noise is text of a length, made from a seed.
func noise(seed string, length int) string {
	var text strings.Builder
	for state := hashOf(seed); text.Len() < length; state = state*6364136223846793005 + 1442695040888963407 {
		text.WriteString(strconv.FormatUint(state, 36))
	}
	return text.String()[:length]
}

// podSample is what a pod says about itself.
type podSample struct {
	At         int64   `json:"at"` // Unix milliseconds
	Pod        string  `json:"pod"`
	Pid        int     `json:"pid"`
	RSS        int64   `json:"rss"` // bytes
	Heap       uint64  `json:"heap"`
	Goroutines int     `json:"goroutines"`
	FDs        int     `json:"fds"`
	Acked      int64   `json:"acked"`
	Ended      int64   `json:"ended"`
	Start      buckets `json:"start"` // trigger to start, since the last line
	Claim      buckets `json:"claim"` // ready to claimed, since the last line
}

// sample adds a line to the pod's samples now and then.
func (s *soakPod) sample(ctx context.Context) {
	spec := s.pod.spec.Soak
	file, err := os.OpenFile(spec.Samples, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer func() { _ = file.Close() }() // each line is written by itself
	for pause(ctx, spec.SampleEvery) == nil {
		if spec.Leak {
			s.kept = append(s.kept, make([]byte, 1<<20))
			clear(s.kept[len(s.kept)-1])
			go func() { <-ctx.Done() }()
		}
		start, claim := s.meter.take()
		line, err := json.Marshal(podSample{
			At: time.Now().UnixMilli(), Pod: s.pod.spec.Name, Pid: os.Getpid(), RSS: residentBytes(), Heap: liveBytes(),
			Goroutines: runtime.NumGoroutine(), FDs: openFiles(), Acked: s.acked.Load(), Ended: s.ended.Load(), Start: start, Claim: claim,
		})
		if err == nil {
			_, err = file.Write(append(line, '\n'))
		}
		if err != nil {
			panic(err)
		}
	}
}

// liveBytes is what the last garbage collection found in use.
func liveBytes() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}

// residentBytes is how much memory this process has, by the kernel.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0 // no such file on this system
	}
	fields := strings.Fields(string(text))
	pages, _ := strconv.ParseInt(fields[1], 10, 64) // the kernel writes numbers
	return pages * int64(os.Getpagesize())
}

func openFiles() int {
	names, _ := os.ReadDir("/proc/self/fd") // none on other systems
	return len(names)
}

func (s *soakPod) burst(n int) {
	began := time.Now()
	for done := 0; done < n; {
		inputs := make([]string, min(500, n-done))
		for i := range inputs {
			inputs[i] = fmt.Sprintf("burst-%d-%d-%d|%d|%s||0", os.Getpid(), began.UnixNano(), done+i, time.Now().UnixNano(), fateCompleted)
		}
		runs, err := s.pod.shapes.byName("single").RunMany(context.Background(), inputs, troupe.Tenant("burst"))
		for _, run := range runs {
			s.acked.Add(1)
			s.pod.ledger.note("acked", run.ID().String(), string(fateCompleted))
		}
		if err != nil && !errors.Is(err, troupe.ErrUnavailable) {
			s.pod.say("burst failed: %v", err)
			return
		}
		if err == nil {
			done += len(inputs) // one whose answer was lost is made again: runs without a caller do no harm
		}
	}
	s.pod.say("burst %d in %d ms", n, time.Since(began).Milliseconds())
}

func (s *soakPod) probe(n int) {
	began := time.Now()
	in := fmt.Sprintf("probe-%d-%d|%d|%s||0", os.Getpid(), n, began.UnixNano(), fateCompleted)
	run := s.trigger(context.Background(), "diamond", in, troupe.Tenant("probe"))
	if run == nil {
		s.pod.say("probed failed")
		return
	}
	s.acked.Add(1)
	s.pod.ledger.note("acked", run.ID().String(), string(fateCompleted))
	s.await(context.Background(), run, in, fateCompleted)
	s.pod.say("probed %d", time.Since(began).Milliseconds())
}
