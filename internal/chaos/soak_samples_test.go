package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"
)

// serverSample is what PostgreSQL says about itself.
type serverSample struct {
	Dead        int64 `json:"dead_tuples"` // of all tables of the schema
	Hot         int64 `json:"hot_bytes"`   // tables and indexes of what lives
	History     int64 `json:"history_bytes"`
	WAL         int64 `json:"wal_bytes"`     // written since the server was made
	WALKept     int64 `json:"wal_kept"`      // bytes in pg_wal
	SlotLag     int64 `json:"slot_lag"`      // bytes that a replication slot holds back
	Slots       int64 `json:"slots"`         // replication slots
	Connections int64 `json:"connections"`   // of the pods
	Open        int64 `json:"open_runs"`     // that have not ended
	Oldest      int64 `json:"xmin_age"`      // transactions since the oldest snapshot
	ReadyDead   int64 `json:"dead_in_queue"` // dead tuples of the ready queue
}

const serverSampleSQL = `select
	coalesce((select sum(n_dead_tup) from pg_stat_user_tables where schemaname = 'troupe'), 0)::bigint,
	coalesce((select sum(pg_total_relation_size(c.oid)) from pg_class c where c.relnamespace = 'troupe'::regnamespace and c.relkind = 'r'
		and c.relname !~ '^(run_history|task_events|run_keys)'), 0)::bigint,
	coalesce((select sum(pg_total_relation_size(c.oid)) from pg_class c where c.relnamespace = 'troupe'::regnamespace and c.relkind = 'r'
		and c.relname ~ '^(run_history|task_events|run_keys)'), 0)::bigint,
	pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint,
	coalesce((select sum(size) from pg_ls_waldir()), 0)::bigint,
	coalesce((select max(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)) from pg_replication_slots), 0)::bigint,
	(select count(*) from pg_replication_slots),
	(select count(*) from pg_stat_activity where datname = current_database() and (application_name like 'troupe%' or application_name = 'chaos pod')),
	(select count(*) from troupe.workflow_runs where state < 'completed'),
	coalesce((select max(age(backend_xmin)) from pg_stat_activity where backend_xmin is not null), 0)::bigint,
	coalesce((select n_dead_tup from pg_stat_user_tables where schemaname = 'troupe' and relname = 'ready_queue'), 0)::bigint`

// soakSample is what one look at everything has found.
type soakSample struct {
	Seconds float64            `json:"at_s"`
	Pods    []podSample        `json:"pods"`
	Server  *serverSample      `json:"server"` // nil: it did not answer
	StartMs map[string]float64 `json:"trigger_to_start_ms,omitempty"`
	ClaimMs map[string]float64 `json:"ready_to_claimed_ms,omitempty"`
}

// sampler gathers samples.
type sampler struct {
	y       *yard
	began   time.Time
	read    map[string]int64 // bytes of each file that were read
	series  map[string][]point
	acked   map[int]int64 // by process
	ended   map[int]int64
	lastWAL point
	spared  string // the pod that no fault ends
}

func newSampler(y *yard, spared string) *sampler {
	return &sampler{
		y: y, began: time.Now(), read: map[string]int64{}, series: map[string][]point{},
		acked: map[int]int64{}, ended: map[int]int64{}, spared: spared,
	}
}

// look takes one sample and adds it to the series.
func (s *sampler) look() soakSample {
	s.y.t.Helper()
	at := time.Since(s.began)
	sample := soakSample{Seconds: math.Round(at.Seconds()*10) / 10, Pods: s.podLines()}
	start, claim := buckets{}, buckets{}
	for i := range sample.Pods {
		p := &sample.Pods[i]
		s.acked[p.Pid], s.ended[p.Pid] = p.Acked, p.Ended
		start.merge(p.Start)
		claim.merge(p.Claim)
		p.Start, p.Claim = nil, nil
		if p.Pod == s.spared {
			s.add(seriesRSS, at, float64(p.RSS)/(1<<20))
			s.add("heap of a pod", at, float64(p.Heap)/(1<<20))
			s.add(seriesGoroutines, at, float64(p.Goroutines))
			s.add("open files of a pod", at, float64(p.FDs))
		}
	}
	if len(start) > 0 && len(claim) > 0 {
		sample.StartMs = s.latency("trigger to start", at, start)
		sample.ClaimMs = s.latency("ready to claimed", at, claim)
	}
	sample.Server = s.server()
	if sample.Server != nil {
		s.addServer(at, *sample.Server)
	}
	return sample
}

func (s *sampler) add(name string, at time.Duration, value float64) {
	s.series[name] = append(s.series[name], point{at, value})
}

func (s *sampler) latency(name string, at time.Duration, b buckets) map[string]float64 {
	s.add(name+", p50", at, b.at(0.5))
	s.add(name+", p95", at, b.at(0.95))
	return map[string]float64{"p50": b.at(0.5), "p95": b.at(0.95), "max": b.at(1)}
}

func (s *sampler) addServer(at time.Duration, v serverSample) {
	const mebi = 1 << 20
	s.add("dead tuples", at, float64(v.Dead))
	s.add("dead tuples of the queue", at, float64(v.ReadyDead))
	s.add("hot tables", at, float64(v.Hot)/mebi)
	s.add("history", at, float64(v.History)/mebi)
	s.add("WAL kept", at, float64(v.WALKept)/mebi)
	s.add("WAL held by slots", at, float64(v.SlotLag)/mebi)
	s.add("replication slots", at, float64(v.Slots))
	s.add("connections", at, float64(v.Connections))
	s.add("runs under way", at, float64(v.Open))
	wal := point{at, float64(v.WAL) / mebi}
	if elapsed := wal.at - s.lastWAL.at; s.lastWAL.value > 0 && elapsed > 0 {
		s.add("WAL written", at, (wal.value-s.lastWAL.value)/elapsed.Seconds())
	}
	s.lastWAL = wal
}

// server asks PostgreSQL, which may be away.
func (s *sampler) server() *serverSample {
	ctx, cancel := context.WithTimeout(s.y.t.Context(), 5*time.Second)
	defer cancel()
	var v serverSample
	err := s.y.pool.QueryRow(ctx, coded(serverSampleSQL)).Scan(&v.Dead, &v.Hot, &v.History, &v.WAL, &v.WALKept, &v.SlotLag, &v.Slots,
		&v.Connections, &v.Open, &v.Oldest, &v.ReadyDead)
	if err != nil {
		return nil
	}
	return &v
}

// podLines returns the last of the lines that each pod has added since the last
// look, with the latencies of all.
func (s *sampler) podLines() []podSample {
	s.y.t.Helper()
	paths, err := filepath.Glob(filepath.Join(s.y.dir, "*.samples"))
	require.NoError(s.y.t, err)
	var last []podSample
	for _, path := range paths {
		lines := s.newLines(path)
		if len(lines) == 0 {
			continue
		}
		newest := lines[len(lines)-1]
		for _, earlier := range lines[:len(lines)-1] {
			newest.Start.merge(earlier.Start)
			newest.Claim.merge(earlier.Claim)
		}
		last = append(last, newest)
	}
	return last
}

// newLines reads what a pod has added to its file; half a line waits.
func (s *sampler) newLines(path string) []podSample {
	s.y.t.Helper()
	file, err := os.Open(path)
	require.NoError(s.y.t, err)
	defer func() { _ = file.Close() }() // only read from
	text, err := io.ReadAll(io.NewSectionReader(file, s.read[path], math.MaxInt32))
	require.NoError(s.y.t, err)
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	s.read[path] += int64(len(text))
	var lines []podSample
	for scan := bufio.NewScanner(bytes.NewReader(text)); scan.Scan(); {
		line := podSample{Start: buckets{}, Claim: buckets{}}
		require.NoError(s.y.t, json.Unmarshal(scan.Bytes(), &line))
		lines = append(lines, line)
	}
	return lines
}

// total adds up what all processes have counted.
func total(counts map[int]int64) int64 {
	var sum int64
	for _, n := range counts {
		sum += n
	}
	return sum
}
