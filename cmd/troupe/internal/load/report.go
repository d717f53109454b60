package load

import (
	"time"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/testbed"
)

// Report is what one load did.
type Report struct {
	Host        testbed.Host   `json:"host"`
	Server      testbed.Server `json:"postgresql"`
	Load        Load           `json:"load"`
	Interrupted bool           `json:"interrupted"`
	Seconds     float64        `json:"seconds"` // from the first trigger to the last end

	Runs           Runs    `json:"runs"`
	RunsPerSecond  float64 `json:"runs_per_second"`
	Steps          int64   `json:"steps"`
	StepsPerSecond float64 `json:"steps_per_second"`

	Elements          int64   `json:"elements,omitempty"` // of maps, among the steps
	ElementsPerSecond float64 `json:"elements_per_second,omitempty"`

	Activations          int64   `json:"activations,omitempty"` // of machines; their activities are the steps
	ActivationsPerSecond float64 `json:"activations_per_second,omitempty"`

	FailureRate float64 `json:"failure_rate"` // share of ended runs that failed
	Retried     int64   `json:"retried_as_asked"`
	Errored     int64   `json:"attempts_failed_unasked"`
	Lost        int64   `json:"attempts_lost"`

	Acknowledged Latency `json:"acknowledged"` // from the intended trigger until it was durable
	Started      Latency `json:"started"`      // … to the first line of the first step
	Ended        Latency `json:"ended"`        // … until others could see that the run has ended

	WALPerStep          float64 `json:"wal_bytes_per_step"`
	TransactionsPerStep float64 `json:"transactions_per_step"`
	PodCPUPerStep       float64 `json:"pod_cpu_us_per_step"`
	ServerCPUPerStep    float64 `json:"server_cpu_us_per_step"` // 0: not known

	Triggers Batches `json:"trigger_transactions"` // and the runs that they stored
	Claims   Batches `json:"claim_transactions"`   // and the tasks that they granted
	Records  Batches `json:"record_transactions"`  // and the transitions that they recorded
	Wakes    int64   `json:"wakes"`                // heard by all pods

	Pods []PodReport `json:"pods"`
}

// Runs are counts of runs; those of how they ended are the database's.
type Runs struct {
	Triggered int64  `json:"triggered"`
	Refused   int64  `json:"refused"`
	Refusal   string `json:"refusal,omitempty"` // the first
	Completed int64  `json:"completed"`
	Failed    int64  `json:"failed"`
	Unasked   int64  `json:"failed_unasked"` // of those
	Canceled  int64  `json:"canceled"`
	Open      int64  `json:"open"` // when they were given up
}

// Latency is a distribution, in milliseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_ms"`
	P50   float64 `json:"p50_ms"`
	P95   float64 `json:"p95_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`

	histogram *Histogram
}

// PodReport is what one pod did.
type PodReport struct {
	Name          string  `json:"name"`
	Triggered     int64   `json:"triggered"`
	Steps         int64   `json:"steps"`
	CPUSeconds    float64 `json:"cpu_seconds"`
	Cores         float64 `json:"cores"`      // of CPU, over the time of the load
	MemoryMiB     float64 `json:"memory_mib"` // resident, before the load
	PeakMemoryMiB float64 `json:"peak_memory_mib"`
	LiveMiB       float64 `json:"live_heap_mib"` // what the garbage collector found in use, before the load
	PeakLiveMiB   float64 `json:"peak_live_heap_mib"`
}

// newReport adds up what the pods, the database and the machine say.
func newReport(d *director, accounts []account, counted census, used testbed.Usage) Report {
	sums := account{Acknowledged: &Histogram{}, Started: &Histogram{}, Ended: &Histogram{}}
	for i, a := range accounts {
		d.tallies[i] = a.Tally
		sums.CPU += a.CPU
		sums.Looks += a.Looks
		sums.Wakes += a.Wakes
		sums.Activations += a.Activations
		sums.Triggers, sums.Claims, sums.Records = sums.Triggers.plus(a.Triggers), sums.Claims.plus(a.Claims), sums.Records.plus(a.Records)
		sums.Acknowledged.Merge(a.Acknowledged)
		sums.Started.Merge(a.Started)
		sums.Ended.Merge(a.Ended)
	}
	all := d.sum()
	r := Report{
		Host: d.bed.Host, Server: d.bed.Server, Load: d.options.Load, Interrupted: d.halted,
		Runs: Runs{
			Triggered: all.Triggered, Refused: all.Refused, Refusal: all.Refusal,
			Completed: counted.Completed, Failed: counted.Failed, Unasked: counted.Unasked, Canceled: counted.Canceled, Open: counted.Open,
		},
		Steps: all.Steps, Elements: all.Elements, Retried: all.Retried, Errored: all.Errored, Lost: all.Lost,
		Activations: sums.Activations,
		Triggers:    sums.Triggers, Claims: sums.Claims, Records: sums.Records, Wakes: sums.Wakes,
		Acknowledged: newLatency(sums.Acknowledged), Started: newLatency(sums.Started), Ended: newLatency(sums.Ended),
	}
	if all.LastEnd > 0 {
		r.Seconds = time.Unix(0, all.LastEnd).Sub(d.began).Seconds()
		r.RunsPerSecond, r.StepsPerSecond = float64(counted.ended())/r.Seconds, float64(all.Steps)/r.Seconds
		r.ElementsPerSecond = float64(all.Elements) / r.Seconds
		r.ActivationsPerSecond = float64(sums.Activations) / r.Seconds
	}
	if ended := counted.ended(); ended > 0 {
		r.FailureRate = float64(counted.Failed) / float64(ended)
	}
	if steps := float64(all.Steps); steps > 0 {
		r.WALPerStep, r.TransactionsPerStep = float64(used.WAL)/steps, float64(max(0, used.Transactions-sums.Looks))/steps
		r.PodCPUPerStep, r.ServerCPUPerStep = float64(sums.CPU)/1e3/steps, float64(used.Server.Microseconds())/steps
	}
	for i, a := range accounts {
		pod := PodReport{
			Name: d.pods[i].name, Triggered: a.Tally.Triggered, Steps: a.Tally.Steps,
			CPUSeconds: time.Duration(a.CPU).Seconds(), MemoryMiB: mib(a.Memory.Before), PeakMemoryMiB: mib(a.Memory.Peak),
			LiveMiB: mib(a.Memory.LiveBefore), PeakLiveMiB: mib(a.Memory.LivePeak),
		}
		if r.Seconds > 0 {
			pod.Cores = pod.CPUSeconds / r.Seconds
		}
		r.Pods = append(r.Pods, pod)
	}
	return r
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

func newLatency(h *Histogram) Latency {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	return Latency{
		Count: h.Count(), Mean: ms(h.Mean()), P50: ms(h.At(0.5)), P95: ms(h.At(0.95)), P99: ms(h.At(0.99)), Max: ms(h.Max()),
		histogram: h,
	}
}
