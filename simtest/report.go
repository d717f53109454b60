package simtest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/sim"
)

// traceLines is how much of a history a report shows.
const traceLines = 40

// tail keeps the end of a history, without what only says that pods are alive.
type tail struct{ lines []string }

// add implements the trace of a world.
func (t *tail) add(line sim.Line) {
	if beats(line) {
		return
	}
	t.lines = append(t.lines, readable(line))
	if len(t.lines) > 4*traceLines {
		t.lines = slices.Clone(t.lines[len(t.lines)-traceLines:])
	}
}

// last returns the last lines, with the names of runs in the place of their ids.
func (t *tail) last(named *strings.Replacer) []string {
	lines := slices.Clone(t.lines[max(len(t.lines)-traceLines, 0):])
	for i := range lines {
		lines[i] = strings.TrimRight(named.Replace(lines[i]), " ")
	}
	return lines
}

// beats reports whether a line is of periodic work.
func beats(line sim.Line) bool {
	switch line.Kind {
	case "message":
		return !strings.Contains(line.Where, "/runs/") || strings.HasPrefix(line.What, "answered[") || line.What == "actor.Started"
	case "store":
		return slices.Contains([]string{
			"renew_pod", "ping", "campaign", "notify", "fire_timers", "expire_pods", "park_tasks", "drain_intake", "claim_tasks", "run", "ended_runs", "bump_epoch", "probe",
		}, line.What)
	}
	return false
}

func readable(line sim.Line) string {
	return fmt.Sprintf("%12s  %-8s %-28s %s", line.At.Round(time.Microsecond), line.Kind, place(line.Where), firstLine(line.What))
}

// place is a pod and an actor, without ids that mean nothing to a reader.
func place(where string) string {
	return regexp.MustCompile(`troupe-\d+-\d+/?`).ReplaceAllString(where, "")
}

// report is what a test prints that has failed.
func report(test string, o *outcome, trace []string) string {
	var text strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	say("%s does not hold, in simulation %s", o.violation.Promise, o.setting.name())
	say("")
	say("    %s", strings.ReplaceAll(strings.TrimSpace(o.violation.Text), "\n", "\n    "))
	if lines := again(o); len(lines) > 0 {
		say("")
		for _, line := range lines {
			say("%s", line)
		}
	}
	say("")
	say("What went wrong on the way, after %v and with everything left out that does not matter:", o.elapsed.Round(time.Millisecond))
	for _, line := range wrong(o) {
		say("    %s", line)
	}
	if len(o.logs) > 0 {
		say("")
		say("What the test logged:")
		for _, line := range o.logs {
			say("    %s", line)
		}
	}
	say("")
	say("The end of the history (time, what, where):")
	for _, line := range trace {
		say("    %s", line)
	}
	say("")
	say("To see it again:")
	say("    TROUPE_SIM_SEED=%s go test -run '%s' .", o.setting.name(), pattern(test))
	say("and with TROUPE_SIM_TRACE=1 for the whole history.")
	return text.String()
}

// pattern is what selects a test by -run.
func pattern(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// wrong lists the faults.
func wrong(o *outcome) []string {
	var lines []string
	if o.planned != "" {
		lines = append(lines, o.planned)
	}
	for _, f := range o.faults {
		lines = append(lines, fmt.Sprintf("%12s  %s at %s", f.At.Round(time.Millisecond), f.Class, place(f.Place)))
	}
	if len(lines) == 0 {
		return []string{"nothing: it happens without any fault"}
	}
	return lines
}

// again tells which steps were executed again although they had begun, or even
// succeeded, before: the first suspects.
func again(o *outcome) []string {
	byKey := map[string][]*execution{}
	var keys []string
	for _, x := range o.log {
		key := x.about.IdempotencyKey
		if byKey[key] == nil {
			keys = append(keys, key)
		}
		byKey[key] = append(byKey[key], x)
	}
	var lines []string
	for _, key := range keys {
		list := byKey[key]
		if !slices.ContainsFunc(list[:len(list)-1], func(x *execution) bool { return x.end == "succeeded" || len(x.effects) > 0 }) {
			continue
		}
		lines = append(lines, fmt.Sprintf("Step %q of workflow %q was executed %d times:", list[0].about.Step, list[0].about.Workflow, len(list)))
		for _, x := range list {
			lines = append(lines, "    "+x.tell())
		}
	}
	if len(lines) > 0 {
		lines = append(lines,
			"A step is executed again if its pod crashes before its success is recorded, and if it is retried",
			"after an error that did not tell whether a call took effect. Let the next execution do nothing",
			"new: give troupe.Task(ctx).IdempotencyKey, which is the same for all of them, to whatever the step",
			"calls; or, if that is your PostgreSQL, declare the step with troupe.InTx.")
	}
	return lines
}

// tell is one line about an execution.
func (x *execution) tell() string {
	text := fmt.Sprintf("%12s  on %s", x.began.Round(time.Microsecond), x.pod.Name)
	if len(x.effects) > 0 {
		text += ", took effect on " + strings.Join(x.effects, ", ")
	}
	switch {
	case x.end == "" && x.orphaned:
		return text + ", and its pod crashed"
	case x.end == "":
		return text + ", and is under way"
	default:
		return text + ", " + x.end
	}
}
