package demo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/census"
)

// snapshot is what the display shows at one instant.
type snapshot struct {
	elapsed  time.Duration
	tenants  []tenantLine // the largest first
	pods     []podLine
	slots    int     // of each pod
	done     int     // runs that have ended
	total    int     // runs
	rate     float64 // runs that ended, per second
	sleeping int     // tasks
	lost     int     // losses of tasks with a dead pod
	regained int     // lost tasks that have completed
}

// tenantLine counts a tenant's runs, and the tasks of those.
type tenantLine struct {
	name                string
	total, done, failed int
	tasks, ended        int
}

type podLine struct {
	name    string
	running int           // tasks
	killed  time.Duration // how long ago; 0: it lives
}

// tenantLines returns a line for each tenant of the packages.
func tenantLines(packages []census.Package) []tenantLine {
	var lines []tenantLine
	for _, p := range packages {
		i := slices.IndexFunc(lines, func(l tenantLine) bool { return l.name == p.Tenant })
		if i < 0 {
			i = len(lines)
			lines = append(lines, tenantLine{name: p.Tenant})
		}
		lines[i].total++
	}
	slices.SortFunc(lines, func(a, b tenantLine) int {
		return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.name, b.name))
	})
	return lines
}

// Limits of what the display needs to be worth more than plain lines.
const (
	columnsMin = 76
	barMax     = 44
	dotsMax    = 8 // slots of a pod that are drawn, not counted
)

// lines renders a snapshot for a terminal of so many columns.
func (s snapshot) lines(columns int, in ink) []string {
	name := len("tenant")
	digits := 1
	for _, t := range s.tenants {
		name = max(name, len(t.name))
		digits = max(digits, len(fmt.Sprint(t.total)))
	}
	bar := min(barMax, columns-name-2*digits-9)
	lines := []string{"", in.faint(fmt.Sprintf("  %-*s  %-*s  %*s", name, "tenant", bar, "steps that have ended", 2*digits+1, "runs"))}
	for _, t := range s.tenants {
		count := fmt.Sprintf("%*d/%*d", digits, t.done, digits, t.total)
		lines = append(lines, fmt.Sprintf("  %-*s  %s  %s", name, t.name, t.bar(bar, in), in.faintUnless(t.done == t.total, count)))
	}
	lines = append(lines, "", fmt.Sprintf("  %-*s  %s", name, "pods", s.podLine(in)))
	facts := []string{
		fmt.Sprintf("%s of %s", grouped(s.done), grouped(s.total)), fmt.Sprintf("%.0f/s", s.rate),
		fmt.Sprintf("%d asleep", s.sleeping),
	}
	if s.lost > 0 {
		facts = append(facts, in.warn(fmt.Sprintf("%d lost", s.lost)), in.good(fmt.Sprintf("%d recovered", s.regained)))
	}
	facts = append(facts, in.faint(fmt.Sprintf("%.1f s", s.elapsed.Seconds())))
	return append(lines, fmt.Sprintf("  %-*s  %s", name, "runs", strings.Join(facts, in.faint(" · "))), "")
}

// bar draws the share of the tasks that have ended, in eighths of a cell.
func (t tenantLine) bar(cells int, in ink) string {
	const eighths = " ▏▎▍▌▋▊▉"
	filled := 0
	if t.tasks > 0 {
		filled = t.ended * cells * 8 / t.tasks
	}
	full, part := filled/8, []rune(eighths)[filled%8]
	text := strings.Repeat("█", full)
	if full < cells {
		text += strings.TrimSpace(string(part))
	}
	rest := strings.Repeat("·", cells-len([]rune(text)))
	switch {
	case t.failed > 0:
		return in.bad(text) + in.faint(rest)
	case t.done == t.total:
		return in.good(text)
	}
	return in.busy(text) + in.faint(rest)
}

// podLine draws a dot for each slot, filled while it executes a task; many
// slots are counted instead.
func (s snapshot) podLine(in ink) string {
	shown := make([]string, len(s.pods))
	for i, p := range s.pods {
		if p.killed > 0 {
			shown[i] = in.bad(fmt.Sprintf("%s killed %.0f s ago", p.name, p.killed.Seconds()))
			continue
		}
		if s.slots > dotsMax {
			shown[i] = fmt.Sprintf("%s %d/%d", p.name, p.running, s.slots)
			continue
		}
		running := min(p.running, s.slots)
		shown[i] = p.name + " " + in.busy(strings.Repeat("●", running)) + in.faint(strings.Repeat("○", s.slots-running))
	}
	return strings.Join(shown, "   ")
}

// line renders a snapshot where no terminal is.
func (s snapshot) line() string {
	text := fmt.Sprintf("%5.1f s  %s of %s runs, %.0f/s, %d asleep", s.elapsed.Seconds(), grouped(s.done), grouped(s.total), s.rate, s.sleeping)
	for _, p := range s.pods {
		if p.killed > 0 {
			text += ", " + p.name + " dead"
		} else {
			text += fmt.Sprintf(", %s executes %d", p.name, p.running)
		}
	}
	if s.lost > 0 {
		text += fmt.Sprintf(", %d lost, %d recovered", s.lost, s.regained)
	}
	return text
}
