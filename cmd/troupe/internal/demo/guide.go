package demo

import (
	"context"
	"net/url"
	"strings"
)

// guide is the commands that show the runs of the demo. They are for its database if that
// is kept, and else for the next one that is.
func guide(in ink, keeps *database, run string) string {
	var text strings.Builder
	text.WriteString("\n  " + in.strong("look at its runs") + "\n")
	if keeps == nil {
		run = "RUN"
		text.WriteString("  troupe demo --keep leaves the database there, for these:\n")
	} else {
		text.WriteString("  export TROUPE_DATABASE_URL='" + keeps.shown() + "'\n")
	}
	for _, command := range []string{
		"runs list --workflow " + censusName + " --limit 10", "runs show " + run, "runs events " + run, "explain " + run, "workflows list", "queues",
	} {
		text.WriteString("  troupe " + command + "\n")
	}
	switch {
	case keeps == nil:
	case keeps.server.Foreign():
		text.WriteString("\n  the database " + keeps.name + " stays: drop it when you have seen enough\n")
	default:
		text.WriteString("\n  PostgreSQL runs until Ctrl-C, which ends it and drops the database\n")
	}
	return text.String()
}

// shown is the address of the database as it is printed. The password of a server that was
// started for the demo was made for it; any other is the user's own, and is not shown.
func (d *database) shown() string {
	if !d.server.Foreign() {
		return d.url
	}
	address, err := url.Parse(d.url)
	if err != nil {
		return d.name
	}
	return address.Redacted()
}

// stay leaves the database on a foreign server, and keeps any other server until the
// context ends.
func (d *database) stay(ctx context.Context) {
	if d.server.Foreign() {
		d.keep = true
		return
	}
	<-ctx.Done()
}
