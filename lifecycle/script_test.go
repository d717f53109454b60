package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestScripts runs testdata/*.txt: what happens to a run, and all that is
// decided. A block is one or more commands, a line of dashes and the expected
// output up to the next empty line; several facts in one block are one batch.
//
//	graph [finish_siblings] [handler] [depth=] starts a new run; indented lines are
//	  c: a maybe(b) settled(d)? opts    its steps: parents with their edges, ?
//	                                    for a condition, then options: sleep=,
//	                                    until, start_timeout=, run_if_all_skipped,
//	                                    wait=, deadline=, skips_late, child,
//	                                    abandons, map; machine, cancel= (how long it
//	                                    lives after one), spawned
//	given STEP skip|fail|until=         what conditions on the input say
//	start                               the run begins
//	claim STEP... [pod=]                a pod takes the tasks
//	do STEP... [pod=]                   claim and succeed
//	succeed STEP [skip=|fail=|until=]   reports; epoch= and pod= override the
//	error STEP [retry=] [timeout=]      right ones
//	lose STEP [max=]
//	release STEP
//	yield STEP [items=] [window=] [allowed=]
//	                                    its child run begins, or its elements,
//	                                    which are steps such as files[0]
//	activate STEP [start=] [cancel=] [taken=] [refuse=] [deaf] [ends]
//	                                    an activation of a machine: start=a,b@1m
//	                                    with the instants of timers, cancel=a#1
//	entries                             prints the inbox of the machine
//	taken STEP ITEM...                  elements that an earlier run completed
//	ended STEP completed|skipped|failed|canceled|gone [in=] [why=]
//	                                    its child run has ended
//	fire TIMER [STEP] [epoch=]          a timer fires, the clock moves to it
//	at DURATION                         the clock moves
//	cancel [grace=]
//	signal NAME                         a signal arrives
//	show                                prints the states
//
// On a wanted change run go test ./lifecycle -update and read the difference.
func TestScripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			s := &script{tb: t}
			got := s.play(string(text))
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
				return
			}
			require.Equal(t, string(text), got)
		})
	}
}

// script plays one file.
type script struct {
	tb  testing.TB
	w   *world
	out strings.Builder
}

const dashes = "----"

// play returns the file with the output that its commands give.
func (s *script) play(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for len(lines) > 0 {
		line := lines[0]
		if line == "" || strings.HasPrefix(line, "#") {
			s.out.WriteString(line + "\n")
			lines = lines[1:]
			continue
		}
		var block []string
		for len(lines) > 0 && lines[0] != dashes {
			block = append(block, lines[0])
			lines = lines[1:]
		}
		require.NotEmpty(s.tb, lines, "no %s after %q", dashes, block)
		for len(lines) > 0 && lines[0] != "" {
			lines = lines[1:]
		}
		s.out.WriteString(strings.Join(block, "\n") + "\n" + dashes + "\n")
		s.block(block)
	}
	return s.out.String()
}

func (s *script) print(format string, args ...any) {
	s.out.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

func (s *script) block(lines []string) {
	s.tb.Helper()
	first := parseCommand(s.tb, lines[0])
	switch first.name {
	case "graph":
		s.w = newWorld(s.tb, parsePlan(s.tb, first, lines[1:]))
		s.print("%d steps, %d to end", len(s.w.tasks), s.w.run.Remaining)
		return
	case "given":
		s.given(first)
		return
	case "claim", "do":
		for _, name := range first.args {
			s.event(s.w.claim(s.step(name), first.number(s.tb, "pod", 1)))
			if first.name == "do" {
				s.decision(1, s.w.apply(s.fact(command{name: "succeed", args: []string{name}, options: first.options})))
			}
		}
		return
	case "taken":
		for _, item := range first.args[1:] {
			n, err := strconv.Atoi(item)
			require.NoError(s.tb, err)
			s.w.takeOver(s.step(first.args[0]), int32(n))
		}
		return
	case "entries":
		for _, e := range s.w.inboxOfMachine() {
			s.print("%s", e)
		}
		return
	case "at":
		s.w.now = time.Unix(0, 0).UTC().Add(duration(s.tb, first.args[0]))
		return
	case "show":
		s.show()
		return
	case "fire":
		if _, set := s.w.timers[s.timer(first)]; set && len(lines) == 1 && first.options["epoch"] == "" {
			s.decision(1, s.w.fire(s.timer(first)))
			return
		}
	}
	var facts []Fact
	for _, line := range lines {
		facts = append(facts, s.fact(parseCommand(s.tb, line)))
	}
	s.decision(len(lines), s.w.apply(facts...))
}

func (s *script) step(name string) int32 {
	s.tb.Helper()
	for i := range len(s.w.plan.steps) + 1 {
		if s.w.plan.name(int32(i)) == name {
			return int32(i)
		}
	}
	for i := range s.w.tasks {
		if s.w.name(s.w.tasks[i].Step) == name {
			return s.w.tasks[i].Step
		}
	}
	require.Equal(s.tb, "run", name, "no such step")
	return RunStep
}

func (s *script) given(c command) {
	s.tb.Helper()
	t := &s.w.tasks[s.step(c.args[0])]
	for _, flag := range c.args[1:] {
		switch flag {
		case "skip":
			t.Flags |= FlagSkip
		case "fail":
			t.Flags |= FlagFail
			t.Error = "condition panicked"
		default:
			require.Fail(s.tb, "given what: "+flag)
		}
	}
	if until := c.options["until"]; until != "" {
		t.WakeAt = s.w.now.Add(duration(s.tb, until))
	}
}

func (s *script) fact(c command) Fact {
	s.tb.Helper()
	switch c.name {
	case "start":
		return RunStarted{}
	case "cancel":
		return CancelRequested{Reason: "enough", By: "api", Grace: c.duration(s.tb, "grace", 30*time.Second)}
	case "signal":
		return SignalArrived{Name: c.args[0], Steps: s.w.plan.graph().WaitsFor(c.args[0])}
	case "ended":
		return s.ended(c)
	case "fire":
		key := s.timer(c)
		return TimerFired{Step: key.step, Timer: key.kind, Epoch: c.number(s.tb, "epoch", 0)}
	}
	step := s.step(c.args[0])
	var t Task
	if row := s.w.task(step); row != nil {
		t = *row
	}
	r := TaskReported{
		Step: step, Epoch: c.number(s.tb, "epoch", t.Epoch), Pod: c.number(s.tb, "pod", t.Pod),
		MaxLost: int32(c.number(s.tb, "max", 3)), Deaths: Deaths{Lately: int32(c.number(s.tb, "lately", 0)), Kept: int32(c.number(s.tb, "deaths", 0))},
	}
	switch c.name {
	case "succeed":
		r.Kind = Succeeded
		r.Edges = s.edges(c)
	case "error":
		r.Kind, r.Class, r.Error, r.TimedOut = Errored, "boom", "it broke", c.options["timeout"]
		_, r.Retry = c.options["retry"]
		r.RetryIn = c.duration(s.tb, "retry", 0)
	case "lose":
		r.Kind = Lost
	case "release":
		r.Kind = Released
	case "activate":
		r.Kind, r.Activation = Yielded, s.activation(c)
		if slices.Contains(c.args, "ends") {
			r.Kind = Succeeded
		}
	case "yield":
		r.Kind, r.Child = Yielded, "child-of-"+c.args[0]
		if items := c.number(s.tb, "items", 0); items > 0 {
			r.Map = s.w.spreading(step, int32(items), int32(c.number(s.tb, "window", 10)), int32(c.number(s.tb, "allowed", 0)))
		}
	default:
		require.Fail(s.tb, "no command "+c.name)
	}
	return r
}

// ended says how the child run of a step has ended, or that it is gone.
func (s *script) ended(c command) ChildEnded {
	s.tb.Helper()
	f := ChildEnded{Step: s.step(c.args[0]), Run: "child-of-" + c.args[0], Failed: c.options["in"], Error: c.options["why"]}
	if c.args[1] != "gone" {
		f.State = stateNamed(s.tb, c.args[1])
	}
	return f
}

func (s *script) edges(c command) []EdgeFlag {
	s.tb.Helper()
	var edges []EdgeFlag
	for _, name := range c.list("skip") {
		edges = append(edges, EdgeFlag{Child: s.step(name), Flags: FlagSkip})
	}
	for _, name := range c.list("fail") {
		edges = append(edges, EdgeFlag{Child: s.step(name), Flags: FlagFail, Error: "condition panicked"})
	}
	if until := c.options["until"]; until != "" {
		name, in, _ := strings.Cut(until, "@")
		edges = append(edges, EdgeFlag{Child: s.step(name), WakeAt: s.w.now.Add(duration(s.tb, in))})
	}
	return edges
}

func (s *script) timer(c command) timerKey {
	s.tb.Helper()
	key := timerKey{step: RunStep}
	if len(c.args) > 1 {
		key.step = s.step(c.args[1])
	}
	for kind, name := range timerNames() {
		if name == c.args[0] {
			key.kind = kind
		}
	}
	require.NotZero(s.tb, key.kind, "no timer "+c.args[0])
	return key
}

func timerNames() map[TimerKind]string {
	return map[TimerKind]string{
		SleepTimer: "sleep", BackoffTimer: "backoff", StartTimer: "start", QueueTimer: "queue", CancelGraceTimer: "grace", DeadlineTimer: "deadline", StopTimer: "stop",
	}
}
