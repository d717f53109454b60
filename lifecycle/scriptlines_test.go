package lifecycle

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/workflow"
)

// command is one line of a script: a name, arguments and options.
type command struct {
	name    string
	args    []string
	options map[string]string
}

func parseCommand(tb testing.TB, line string) command {
	tb.Helper()
	words := strings.Fields(line)
	require.NotEmpty(tb, words)
	c := command{name: words[0], options: map[string]string{}}
	for _, word := range words[1:] {
		if key, value, ok := strings.Cut(word, "="); ok {
			c.options[key] = value
		} else {
			c.args = append(c.args, word)
		}
	}
	return c
}

func (c command) number(tb testing.TB, option string, otherwise int64) int64 {
	tb.Helper()
	text, ok := c.options[option]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(tb, err)
	return n
}

func (c command) duration(tb testing.TB, option string, otherwise time.Duration) time.Duration {
	tb.Helper()
	text, ok := c.options[option]
	if !ok {
		return otherwise
	}
	return duration(tb, text)
}

func (c command) list(option string) []string {
	return strings.FieldsFunc(c.options[option], func(r rune) bool { return r == ',' })
}

func duration(tb testing.TB, text string) time.Duration {
	tb.Helper()
	d, err := time.ParseDuration(text)
	require.NoError(tb, err)
	return d
}

// parsePlan reads the steps below a graph command.
func parsePlan(tb testing.TB, graph command, lines []string) plan {
	tb.Helper()
	p := plan{policy: workflow.FailFast, depth: int16(graph.number(tb, "depth", 0))}
	for _, arg := range graph.args {
		switch arg {
		case "finish_siblings":
			p.policy = workflow.FinishSiblings
		case "handler":
			p.hasHandler = true
		default:
			require.Fail(tb, "graph "+arg)
		}
	}
	index := map[string]int{}
	for i, line := range lines {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		c := parseCommand(tb, "step "+rest)
		step := planStep{name: name, sleep: c.duration(tb, "sleep", 0), startTimeout: c.duration(tb, "start_timeout", 0)}
		if _, ok := c.options["sleep"]; ok {
			step.traits |= workflow.TraitSleep
		}
		if step.signal = c.options["wait"]; step.signal != "" {
			step.traits |= workflow.TraitWaits
			step.sleep = c.duration(tb, "deadline", 0)
		}
		for _, arg := range c.args {
			switch arg {
			case "machine":
				step.traits |= workflow.TraitMachine
				step.sleep = c.duration(tb, "cancel", 0)
			case "spawned":
				step.traits |= workflow.TraitSpawned
			case "until":
				step.traits |= workflow.TraitSleepUntil
			case "child":
				step.traits |= workflow.TraitChild
			case "map":
				step.traits |= workflow.TraitMap
			case "abandons":
				step.traits |= workflow.TraitAbandons
			case "skips_late":
				step.traits |= workflow.TraitSkipsLate
			case "run_if_all_skipped":
				step.traits |= workflow.TraitRunIfAllSkipped
			default:
				step.edges = append(step.edges, parseEdge(tb, arg, index))
			}
		}
		index[name] = i
		p.steps = append(p.steps, step)
	}
	return p
}

func parseEdge(tb testing.TB, text string, index map[string]int) planEdge {
	tb.Helper()
	e := planEdge{kind: workflow.Plain}
	text, e.conditioned = strings.CutSuffix(text, "?")
	if inner, ok := strings.CutPrefix(text, "maybe("); ok {
		e.kind, text = workflow.Maybe, strings.TrimSuffix(inner, ")")
	}
	if inner, ok := strings.CutPrefix(text, "settled("); ok {
		e.kind, text = workflow.Settled, strings.TrimSuffix(inner, ")")
	}
	parent, ok := index[text]
	require.True(tb, ok, "no parent "+text)
	e.parent = parent
	return e
}

// decision prints answers that are not plainly "moved", events and effects.
func (s *script) decision(facts int, d Decision) {
	names := map[Answer]string{Moved: "moved", AlreadyYours: "already yours", Stale: "stale", Illegal: "illegal"}
	for _, answer := range d.Answers {
		if facts > 1 || answer != Moved {
			s.print("= %s", names[answer])
		}
	}
	for _, e := range d.Events {
		s.event(e)
	}
	lanes := map[Lane]string{LaneNew: "new", LaneContinuing: "continuing"}
	for _, e := range d.Enqueued {
		suspect := ""
		if e.Suspect {
			suspect = "suspect"
		}
		s.print("+ ready %s %s %s", s.w.name(e.Step), lanes[e.Lane], suspect)
	}
	for _, t := range d.Taken {
		s.print("+ %s takes signal %d", s.w.name(t.Step), t.N)
	}
	for _, step := range d.Begun {
		s.print("+ child run of %s", s.w.name(step))
	}
	for _, step := range d.Given {
		s.print("+ %s gets the output of its child run", s.w.name(step))
	}
	for _, step := range d.Stopped {
		s.print("- child run of %s", s.w.name(step))
	}
	for _, m := range d.Maps {
		s.print("%s of %d: %d open, %d failed, %d left", m.Name, m.Items, m.Open, m.Failed, m.Left)
	}
	for _, step := range d.DropTimers {
		s.print("- timers of %s", s.w.name(step))
	}
	for _, t := range d.Timers {
		s.print("+ timer %s of %s at %v", timerNames()[t.Kind], s.w.name(t.Step), t.At.Sub(time.Unix(0, 0)))
	}
}

// event prints one event: what it is about, its number, and what it carries.
func (s *script) event(e Event) {
	if e.Kind == 0 {
		s.print("%s claimed", s.w.name(e.Step))
		return
	}
	line := fmt.Sprintf("%s %v #%d", s.w.name(e.Step), e.Kind, e.N)
	if e.Pod != 0 {
		line += fmt.Sprintf(" pod=%d", e.Pod)
	}
	if e.Attempt != 0 {
		line += fmt.Sprintf(" attempt=%d", e.Attempt)
	}
	if e.Delay != 0 {
		line += fmt.Sprintf(" delay=%v", e.Delay)
	}
	if !e.WakeAt.IsZero() {
		line += fmt.Sprintf(" wake_at=%v", e.WakeAt.Sub(time.Unix(0, 0)))
	}
	if e.By != "" {
		line += fmt.Sprintf(" by=%q", e.By)
	}
	if e.Class != "" {
		line += " class=" + e.Class
	}
	if e.Text != "" {
		line += fmt.Sprintf(" %q", e.Text)
	}
	s.print("%s", line)
}

// show prints the state of the run and of every task.
func (s *script) show() {
	s.print("run %v", s.w.run.State)
	for i := range s.w.tasks {
		s.print("%s %v", s.w.name(s.w.tasks[i].Step), s.w.tasks[i].State)
	}
}
