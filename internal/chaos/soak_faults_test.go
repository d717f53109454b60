package chaos

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// soakFault is one kind of fault. do injects and heals it, and says what was
// done. What it starts has ended when it returns.
type soakFault struct {
	name string
	do   func(s *soak, chance *rand.Rand) string
}

// soakFaults are all kinds; each comes once before any comes again.
func soakFaults() []soakFault {
	return []soakFault{
		{"SIGKILL", (*soak).killOne},
		{"SIGSTOP, SIGCONT", (*soak).freezeOne},
		{"SIGTERM with a replacement", (*soak).replaceOne},
		{"pg_terminate_backend", (*soak).endSessions},
		{"walsenders ended", (*soak).endStreams},
		{"pg_ctl restart", (*soak).restartServer},
		{"long transaction", (*soak).holdSnapshot},
		{"burst of triggers", (*soak).burst},
	}
}

// strike injects the next fault, waits until it is healed and a run that is
// triggered then has ended.
func (s *soak) strike() faultLine {
	s.y.t.Helper()
	if len(s.bag) == 0 {
		s.bag = soakFaults()
		s.chance.Shuffle(len(s.bag), func(i, j int) { s.bag[i], s.bag[j] = s.bag[j], s.bag[i] })
	}
	fault := s.bag[0]
	s.bag = s.bag[1:]
	line := faultLine{Seconds: s.seconds(), Fault: fault.name}
	line.Done = fault.do(s, s.chance)
	line.Healed = s.seconds()
	line.ProbeMs = s.probe()
	return line
}

// faultLine is what one fault did.
type faultLine struct {
	Seconds float64 `json:"at_s"`
	Fault   string  `json:"fault"`
	Done    string  `json:"done"`
	Healed  float64 `json:"healed_s"`
	ProbeMs int     `json:"probe_ms"` // how long a run takes that is triggered once the fault is healed
}

// probe has the spared pod make a run, and returns how long it takes.
func (s *soak) probe() int {
	s.y.t.Helper()
	s.probes++
	s.spared.tell(fmt.Sprintf("probe %d", s.probes))
	var ms int
	_, err := fmt.Sscanf(s.hear(s.spared, "probed"), "probed %d", &ms)
	require.NoError(s.y.t, err)
	return ms
}

// hear waits for a word of a pod, for as long as a soak's callers do.
func (s *soak) hear(p *pod, word string) string {
	s.y.t.Helper()
	return s.y.hearWithin(p, word, soakWait)
}

// replaceable picks one of the pods that faults end; the first one is spared, so
// that a process that lived from the beginning to the end is measured.
func (s *soak) replaceable(chance *rand.Rand) int { return 1 + chance.IntN(len(s.pods)-1) }

// launch starts the next generation of a pod.
func (s *soak) launch(i int) *pod {
	s.y.t.Helper()
	s.generation[i]++
	return s.y.start(fmt.Sprintf("pod-%d-%d", i+1, s.generation[i]))[0]
}

func (s *soak) killOne(chance *rand.Rand) string {
	i := s.replaceable(chance)
	old := s.pods[i]
	old.kill()
	_ = pause(s.y.t.Context(), time.Duration(chance.Int64N(int64(s.options.hold())))) // its peers go on without it
	s.pods[i] = s.launch(i)
	return old.name
}

func (s *soak) freezeOne(chance *rand.Rand) string {
	p := s.pods[chance.IntN(len(s.pods))]
	p.signal(syscall.SIGSTOP)
	_ = pause(s.y.t.Context(), s.options.hold()) // longer than its lease
	p.signal(syscall.SIGCONT)
	return fmt.Sprintf("%s for %v", p.name, s.options.hold())
}

func (s *soak) replaceOne(chance *rand.Rand) string {
	i := s.replaceable(chance)
	old := s.pods[i]
	s.pods[i] = s.launch(i)
	old.signal(syscall.SIGTERM)
	s.y.awaitEnd(old)
	require.Equal(s.y.t, exitClean, old.command.ProcessState.ExitCode(), "%s stops in good order", old.name)
	return old.name + " by " + s.pods[i].name
}

func (s *soak) endSessions(*rand.Rand) string {
	const storm = `select count(pg_terminate_backend(pid))::int from pg_stat_activity
		where datname = current_database() and (application_name like 'troupe%' or application_name = 'chaos pod')`
	ended := 0
	for range 5 {
		ended += s.y.number(storm)
		_ = pause(s.y.t.Context(), 200*time.Millisecond) // they connect again
	}
	return fmt.Sprintf("%d sessions", ended)
}

func (s *soak) endStreams(*rand.Rand) string {
	return fmt.Sprintf("%d walsenders", s.y.number(`select count(pg_terminate_backend(pid))::int from pg_stat_activity where backend_type = 'walsender'`))
}

func (s *soak) restartServer(chance *rand.Rand) string {
	s.y.t.Helper()
	how := "fast"
	if chance.IntN(2) == 0 {
		how = "immediate"
		require.NoError(s.y.t, syscall.Kill(s.y.postmaster(), syscall.SIGQUIT)) // what pg_ctl stop -m immediate sends
	}
	require.NoError(s.y.t, s.server.Restart(s.y.t.Context()))
	return how
}

// holdSnapshot keeps a transaction open that has written, and sees what was
// there when it began: nothing that died since can be cleared away.
func (s *soak) holdSnapshot(*rand.Rand) string {
	s.y.t.Helper()
	ctx := s.y.t.Context()
	conn, err := pgx.Connect(ctx, s.y.url)
	require.NoError(s.y.t, err)
	defer func() { _ = conn.Close(ctx) }() // with its transaction
	_, err = conn.Exec(ctx, "begin isolation level repeatable read; select pg_current_xact_id(); select count(*) from troupe.pods")
	require.NoError(s.y.t, err)
	_ = pause(ctx, 2*s.options.hold()) // vacuum can remove nothing meanwhile
	return fmt.Sprintf("open for %v", 2*s.options.hold())
}

func (s *soak) burst(*rand.Rand) string {
	s.y.t.Helper()
	s.spared.tell(fmt.Sprintf("burst %d", s.options.burst))
	return s.hear(s.spared, "burst")
}
