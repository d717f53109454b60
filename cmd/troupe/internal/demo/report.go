package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

// report renders what happened, section by section.
func (o outcome) report(in ink) string {
	var text strings.Builder
	o.writeTotals(&text, in)
	o.writeWaits(&text, in)
	o.writeRecovery(&text, in)
	o.writeTimes(&text, in)
	text.WriteString("\n")
	for _, c := range o.checks() {
		mark := in.good("✓")
		if !c.holds {
			mark = in.bad("✗")
		}
		text.WriteString("  " + mark + " " + c.text + "\n")
	}
	return text.String()
}

func (o outcome) writeTotals(text *strings.Builder, in ink) {
	counted, straight := o.audit.total, o.straight
	fmt.Fprintf(text, "\n  %s%s\n", in.strong("counted      "), in.faint("   by the pods  straight loop"))
	for _, row := range []struct {
		name      string
		pods, one int
	}{
		{"packages", counted.Packages, straight.Packages},
		{"files", counted.Files, straight.Files},
		{"lines", counted.Lines, straight.Lines},
		{"bytes", counted.Bytes, straight.Bytes},
		{"declarations", counted.Declarations, straight.Declarations},
		{"comments", counted.Comments, straight.Comments},
		{"with tests", counted.Tested, straight.Tested},
		{"tests", counted.Tests, straight.Tests},
	} {
		mark := in.good("✓")
		if row.pods != row.one {
			mark = in.bad("✗")
		}
		fmt.Fprintf(text, "  %-13s%14s%15s  %s\n", row.name, grouped(row.pods), grouped(row.one), mark)
	}
}

func (o outcome) writeWaits(text *strings.Builder, in ink) {
	fmt.Fprintf(text, "\n  %s%s\n", in.strong("waiting      "), in.faint("          runs            p50            p99   trigger to start"))
	for _, t := range o.tenants {
		waits := o.audit.waits[t.name]
		fmt.Fprintf(text, "  %-13s%14s%15s%15s\n", t.name, grouped(t.total), duration(waits.at(0.5)), duration(waits.at(0.99)))
	}
}

func (o outcome) writeRecovery(text *strings.Builder, in ink) {
	fmt.Fprintf(text, "\n  %s\n", in.strong("recovery"))
	if o.victim == "" {
		text.WriteString("  no pod was killed\n")
		return
	}
	fmt.Fprintf(text, "  %s was killed with SIGKILL after %s, while it executed %s\n",
		o.victim, duration(o.killed), output.Count(o.held, "task"))
	if o.led && o.reign > 0 {
		fmt.Fprintf(text, "  it was the leader; the next one led %s later\n", duration(o.reign))
	}
	account := o.audit.account
	fmt.Fprintf(text, "  %s lost with it, %d of them completed on other pods\n", output.Several(account.Lost, "task was", "tasks were"), account.Regained)
	if under := o.held - account.Lost; under > 0 {
		fmt.Fprintf(text, "  the results of the other %d were on their way to the database, and count\n", under)
	}
	if o.audit.taken != nil && o.audit.resumed != nil {
		fmt.Fprintf(text, "  they were taken back %s after the kill; the last ran again after %s\n",
			seconds(*o.audit.taken), seconds(*o.audit.resumed))
	}
	shares := make([]string, 0, len(o.pods))
	for _, name := range o.pods {
		shares = append(shares, fmt.Sprintf("%s %s", name, grouped(o.audit.executed[name])))
	}
	fmt.Fprintf(text, "  attempts executed: %s\n", strings.Join(shares, ", "))
}

func (o outcome) writeTimes(text *strings.Builder, in ink) {
	a := o.audit
	fmt.Fprintf(text, "\n  %s\n", in.strong("times"))
	fmt.Fprintf(text, "  %-13s%s on the pods, the wait for the dead one's lease included\n", "all runs", duration(o.tasks))
	fmt.Fprintf(text, "  %-13s%s for the same counting, nothing else\n", "the loop", duration(o.loop))
	fmt.Fprintf(text, "  %-13sstored to start (0: same pod): p50 %s, p99 %s (%s)\n",
		"wake", duration(a.probes.at(0.5)), duration(a.probes.at(0.99)), output.Count(len(a.probes), "probe"))
	fmt.Fprintf(text, "  %-13s%s durable ones of %v, woken late by p50 %s, p99 %s\n",
		"sleeps", grouped(a.account.Sleeps), settleTime, duration(a.lateness.at(0.5)), duration(a.lateness.at(0.99)))
	fmt.Fprintf(text, "  %-13s%s, of steps whose first attempt failed on purpose\n", "retries", grouped(a.account.Retries))
}

func seconds(s float64) string { return duration(time.Duration(s * float64(time.Second))) }
