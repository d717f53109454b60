package main

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/explain"
)

// podJSON is a pod as scripts get it.
type podJSON struct {
	Number    int64      `json:"number"`
	Name      string     `json:"name"`
	Version   string     `json:"version"`
	Protocol  int        `json:"protocol"`
	Slots     int        `json:"slots"`
	Queues    []string   `json:"queues"`
	StartedAt *time.Time `json:"started_at"`
	Expires   *time.Time `json:"expires"`
	LeaseMS   int64      `json:"lease_ms"`
	Leads     bool       `json:"leads"`
}

func podsCommand(w world) *cobra.Command {
	f := &readFlags{}
	c := &cobra.Command{
		Use:   "pods",
		Short: "List the pods, their leases, and which one leads",
		Long: `Lists the pods that were not declared dead, with what is left of the lease that each
renews every few seconds, by the database's clock.

With --json it prints one object on one line:
  {"pods": [{"number", "name", "version", "protocol", "slots", "queues",
  "started_at", "expires", "lease_ms", "leads"}, …]}`,
		Args: noArguments,
		RunE: f.print(w, func(ctx context.Context, out io.Writer, reader *troupe.Reader, _ []string) error {
			pods, err := reader.Pods(ctx)
			if err != nil {
				return err
			}
			list := make([]podJSON, len(pods))
			table := output.NewTable("POD", "NUMBER", "LEASE", "LEADS", "SLOTS", "QUEUES", "STARTED", "VERSION")
			for i, p := range pods {
				list[i] = podJSON{
					Number: p.Number, Name: p.Name, Version: p.Version, Protocol: p.Protocol, Slots: p.Slots, Queues: append([]string{}, p.Queues...),
					StartedAt: output.Instant(p.StartedAt), Expires: output.Instant(p.Expires), LeaseMS: p.Lease.Milliseconds(), Leads: p.Leads,
				}
				leads := ""
				if p.Leads {
					leads = "leads"
				}
				table.Add(p.Name, strconv.FormatInt(p.Number, 10), leaseText(p.Lease), leads, strconv.Itoa(p.Slots), strings.Join(p.Queues, ", "),
					output.Stamp(p.StartedAt), p.Version)
			}
			switch {
			case f.json:
				return output.Line(out, map[string][]podJSON{"pods": list})
			case f.lines:
				return output.Lines(out, list)
			}
			return table.Write(out)
		}),
	}
	f.add(c)
	return f.watched(f.inLines(f.inJSON(c)))
}

// leaseText is what is left of a lease.
func leaseText(left time.Duration) string {
	if left <= 0 {
		return "over for " + explain.Span(-left)
	}
	return explain.Span(left)
}
