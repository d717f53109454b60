// Command bench compares troupe with other engines that keep their state in
// PostgreSQL, and with what the database can do without an engine, side by side
// on one private server. README.md says what is measured and how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/troupe-dev/troupe/bench/internal/cases"
	"github.com/troupe-dev/troupe/bench/internal/contest"
	"github.com/troupe-dev/troupe/bench/internal/process"
	"github.com/troupe-dev/troupe/bench/internal/report"
	"github.com/troupe-dev/troupe/bench/internal/roster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		_, _ = fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out, news io.Writer) error {
	if len(args) == 1 {
		switch args[0] {
		case process.Measure:
			return process.Main(ctx, in, out)
		case process.Work:
			return process.WorkMain(ctx, in, out)
		}
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(news)
	names := flags.String("cases", "", "comma-separated `names`; none: all (-list shows them)")
	peers := flags.String("peers", "", "comma-separated `names`; none: all")
	repeats := flags.Int("repeats", 0, "of every measurement, in turns; 0: 3, or 1 if quick")
	quick := flags.Bool("quick", false, "short measurements, peers with their fastest settings only")
	gogc := flags.Int("gogc", 100, "`percent` that every measuring process sets its garbage collector to, ours and others alike; 100 is what Go does by itself")
	profile := flags.String("profile", "", "an existing `folder` for a CPU profile of each measuring process, the server's apart")
	jsonOnly := flags.Bool("json", false, "print the JSON lines without the table")
	list := flags.Bool("list", false, "list the cases and the peers with their settings")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *list {
		return catalog(out)
	}
	o := contest.Options{Cases: split(*names), Peers: split(*peers), Repeats: *repeats, Quick: *quick, GOGC: *gogc, Profile: *profile}
	if o.Repeats == 0 {
		o.Repeats = 3
		if o.Quick {
			o.Repeats = 1
		}
	}
	if err := o.Validate(roster.All()); err != nil {
		return err
	}
	result, failed := contest.Run(ctx, o, roster.All(), news)
	if failed != nil && len(result.Lines) == 0 {
		return failed
	}
	return errors.Join(failed, show(out, result, *jsonOnly))
}

func show(out io.Writer, result contest.Result, jsonOnly bool) error {
	if !jsonOnly {
		if err := report.WriteTable(out, result.About, result.Lines); err != nil {
			return err
		}
		for _, text := range result.Missing {
			if _, err := fmt.Fprintln(out, "not measured:", text); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
	}
	return report.WriteJSON(out, result.Lines)
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// catalog tells what there is.
func catalog(out io.Writer) error {
	var text strings.Builder
	for _, c := range cases.All() {
		fmt.Fprintf(&text, "%-18s %s\n", c.Name, c.What)
	}
	text.WriteByte('\n')
	for _, e := range roster.All() {
		for _, s := range e.Settings {
			fmt.Fprintf(&text, "%-13s %-8s %s (%v)\n", e.Name, s.Name, s.Says, s.For)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
