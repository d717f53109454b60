package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// The lines that are shown as columns beside the figure of their case.
const (
	clientCPU = ".cpu-client"
	serverCPU = ".cpu-server"
)

// WriteTable writes the lines for people: about, a block per case, the settings
// once at the end. What a job costs in CPU stands beside the first figure of its case.
func WriteTable(w io.Writer, about string, lines []Line) error {
	if _, err := fmt.Fprintf(w, "%s\n\n", about); err != nil {
		return err
	}
	cpu := map[Key]string{}
	for _, l := range lines {
		cpu[Key{l.Case, l.Peer, l.short}] = number(l.Value)
	}
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintln(out, strings.Join(cells, "\t")) } // Flush tells
	row("case", "peer", "setting", "value", "unit", "better", "/ best peer", "/ limit", "client µs", "server µs", "runs", "min", "max")
	last := ""
	for _, l := range lines {
		if strings.HasSuffix(l.Case, clientCPU) || strings.HasSuffix(l.Case, serverCPU) {
			continue
		}
		name, _, _ := strings.Cut(l.Case, ".")
		if last != "" && name != last {
			row("")
		}
		last = name
		better := "less"
		if l.higher {
			better = "more"
		}
		row(l.Case, l.Peer, l.short, number(l.Value), l.Unit, better, factor(l.RatioToBestPeer), factor(l.RatioToLimit),
			orDash(cpu[Key{l.Case + clientCPU, l.Peer, l.short}]), orDash(cpu[Key{l.Case + serverCPU, l.Peer, l.short}]),
			strconv.Itoa(l.Runs), number(l.Min), number(l.Max))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return writeSettings(w, lines)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func writeSettings(w io.Writer, lines []Line) error {
	if _, err := fmt.Fprint(w, "\nsettings\n"); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, l := range lines {
		said := l.Peer + " " + l.Setting
		if seen[said] {
			continue
		}
		seen[said] = true
		if _, err := fmt.Fprintf(w, "  %s\n", said); err != nil {
			return err
		}
	}
	return nil
}

// number shows three digits that matter.
func number(v float64) string {
	switch {
	case v >= 100 || v <= -100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10 || v <= -10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func factor(ratio *float64) string {
	if ratio == nil {
		return "-"
	}
	return "×" + number(*ratio)
}
