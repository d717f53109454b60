package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteTable writes the lines for people: a block per case, the settings once
// at the end.
func WriteTable(w io.Writer, lines []Line) error {
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintln(out, strings.Join(cells, "\t")) } // Flush tells
	row("case", "peer", "setting", "value", "unit", "better", "/ best peer", "/ limit", "runs", "min", "max")
	last := ""
	for _, l := range lines {
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
			strconv.Itoa(l.Runs), number(l.Min), number(l.Max))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return writeSettings(w, lines)
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
