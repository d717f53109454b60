package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/explain"
)

// queuesJSON is what waits, as scripts get it.
type queuesJSON struct {
	Queues []queueJSON  `json:"queues"`
	Parked []parkedJSON `json:"parked"`
}

type queueJSON struct {
	Name          string      `json:"name"`
	Ready         int         `json:"ready"`
	More          bool        `json:"more"`
	OldestReadyMS int64       `json:"oldest_ready_ms"`
	Running       int         `json:"running"`
	Tenants       []placeJSON `json:"tenants"`
}

type placeJSON struct {
	Tenant     string `json:"tenant"`
	Continuing int64  `json:"continuing"`
	New        int64  `json:"new"`
}

type parkedJSON struct {
	Workflow string     `json:"workflow"`
	Step     string     `json:"step"`
	Handler  string     `json:"handler"`
	Queue    string     `json:"queue"`
	Tasks    int        `json:"tasks"`
	More     bool       `json:"more"`
	Since    *time.Time `json:"since"`
}

func queuesCommand(w world) *cobra.Command {
	f := &readFlags{}
	c := &cobra.Command{
		Use:   "queues",
		Short: "Show what waits in each queue, of which tenants, and what no living pod can execute",
		Long: `Shows what waits for a slot in each queue, how long the oldest step has waited, and
what runs. Below it, for each tenant that waits, in how many turns all that it has
in the queue now is served: in a turn every tenant that waits is served once. Last
come the steps that no living pod can execute, because none registers their version.

With --json it prints one object on one line:
  {"queues": [{"name", "ready", "more", "oldest_ready_ms", "running",
  "tenants": [{"tenant", "continuing", "new"}, …]}, …],
  "parked": [{"workflow", "step", "handler", "queue", "tasks", "more", "since"}, …]}`,
		Args: noArguments,
		RunE: f.print(w, func(ctx context.Context, out io.Writer, reader *troupe.Reader, _ []string) error {
			queues, err := reader.Queues(ctx, f.tenant)
			if err != nil {
				return err
			}
			parked, err := reader.Parked(ctx, f.tenant)
			if err != nil {
				return err
			}
			if f.json {
				return output.Line(out, waitingOf(queues, parked))
			}
			return printQueues(out, queues, parked)
		}),
	}
	f.add(c)
	return f.watched(f.inJSON(f.ofTenant(c, w)))
}

func waitingOf(queues []troupe.QueueStatus, parked []troupe.ParkedWork) queuesJSON {
	out := queuesJSON{Queues: make([]queueJSON, len(queues)), Parked: make([]parkedJSON, len(parked))}
	for i, q := range queues {
		out.Queues[i] = queueJSON{
			Name: q.Name, Ready: q.Ready, More: q.More, OldestReadyMS: q.OldestReady.Milliseconds(), Running: q.Running,
			Tenants: make([]placeJSON, len(q.Tenants)),
		}
		for n, place := range q.Tenants {
			out.Queues[i].Tenants[n] = placeJSON(place)
		}
	}
	for i, p := range parked {
		out.Parked[i] = parkedJSON{
			Workflow: p.Workflow, Step: p.Step, Handler: p.Handler, Queue: p.Queue, Tasks: p.Tasks, More: p.More, Since: output.Instant(p.Since),
		}
	}
	return out
}

func printQueues(out io.Writer, queues []troupe.QueueStatus, parked []troupe.ParkedWork) error {
	table, tenants := output.NewTable("QUEUE", "READY", "OLDEST", "RUNNING"), output.NewTable("QUEUE", "TENANT", "TURNS", "TURNS OF NEW RUNS")
	waiting := 0
	for _, q := range queues {
		oldest := ""
		if q.OldestReady > 0 {
			oldest = explain.Span(q.OldestReady)
		}
		table.Add(q.Name, countText(q.Ready, q.More), oldest, strconv.Itoa(q.Running))
		for _, p := range q.Tenants {
			waiting++
			tenants.Add(q.Name, p.Tenant, strconv.FormatInt(p.Continuing, 10), strconv.FormatInt(p.New, 10))
		}
	}
	if err := table.Write(out); err != nil {
		return err
	}
	if waiting > 0 {
		if err := printBelow(out, tenants); err != nil {
			return err
		}
	}
	if len(parked) == 0 {
		return nil
	}
	work := output.NewTable("NO LIVING POD HAS", "STEP", "HANDLER", "QUEUE", "TASKS", "SINCE")
	for _, p := range parked {
		work.Add(p.Workflow, p.Step, p.Handler, p.Queue, countText(p.Tasks, p.More), output.Stamp(p.Since))
	}
	return printBelow(out, work)
}

// printBelow prints a table below another one.
func printBelow(out io.Writer, table *output.Table) error {
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return table.Write(out)
}

// countText is a count that may have stopped before the end.
func countText(n int, more bool) string {
	if more {
		return strconv.Itoa(n) + "+"
	}
	return strconv.Itoa(n)
}
