package main

import (
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

// letterJSON is a dead letter as scripts get it.
type letterJSON struct {
	ID         string     `json:"id"`
	Run        string     `json:"run"`
	Workflow   string     `json:"workflow"`
	Step       string     `json:"step"`
	Tenant     string     `json:"tenant"`
	Reason     string     `json:"reason"`
	Class      string     `json:"class"`
	Error      string     `json:"error"`
	Attempts   int        `json:"attempts"`
	Losses     int        `json:"losses"`
	Handled    bool       `json:"handled"`
	CreatedAt  *time.Time `json:"created_at"`
	StartedAt  *time.Time `json:"started_at"`
	DiedAt     *time.Time `json:"died_at"`
	Requeues   int        `json:"requeues"`
	RequeuedAt *time.Time `json:"requeued_at"`
	RequeuedAs *string    `json:"requeued_as"`
}

// pageJSON is a page of a listing.
type pageJSON struct {
	Letters []letterJSON `json:"letters"`
	Next    *string      `json:"next"`
}

// detailJSON is one with its details.
type detailJSON struct {
	letterJSON

	RunKept bool         `json:"run_kept"`
	Input   any          `json:"input"`
	Parents []parentJSON `json:"parents"`
	Events  []eventJSON  `json:"events"`
}

type parentJSON struct {
	Step   string `json:"step"`
	State  string `json:"state"`
	Output any    `json:"output"`
	Size   int    `json:"size"`
}

type eventJSON struct {
	At    *time.Time `json:"at"`
	Kind  string     `json:"kind"`
	By    string     `json:"by"`
	Class string     `json:"class"`
	Text  string     `json:"text"`
}

type requeuedJSON struct {
	Runs      []string `json:"runs"`
	TakenOver int      `json:"taken_over"`
	Letters   int      `json:"letters"`
	GoOn      int      `json:"go_on"`
	Gone      int      `json:"gone"`
	Handled   int      `json:"handled"`
	Unserved  *int     `json:"unserved"`
}

func letterOf(l *troupe.DeadLetter) letterJSON {
	out := letterJSON{
		ID: l.ID, Run: l.Run.String(), Workflow: l.Workflow, Step: l.Step, Tenant: l.Tenant, Reason: l.Reason.String(),
		Class: l.Class, Error: l.Error, Attempts: l.Attempts, Losses: l.Losses, Handled: l.Handled, CreatedAt: output.Instant(l.CreatedAt),
		StartedAt: output.Instant(l.StartedAt), DiedAt: output.Instant(l.DiedAt), Requeues: l.Requeues, RequeuedAt: output.Instant(l.RequeuedAt),
	}
	if !l.RequeuedAs.IsZero() {
		run := l.RequeuedAs.String()
		out.RequeuedAs = &run
	}
	return out
}

func pageOf(page troupe.DeadLetterPage) pageJSON {
	out := pageJSON{Letters: make([]letterJSON, len(page.Letters))}
	for i := range page.Letters {
		out.Letters[i] = letterOf(&page.Letters[i])
	}
	if page.Next != "" {
		out.Next = &page.Next
	}
	return out
}

func detailOf(d *troupe.DeadLetterDetail) detailJSON {
	out := detailJSON{
		letterJSON: letterOf(&d.DeadLetter), RunKept: d.RunKept, Input: output.Payload(d.Input),
		Parents: []parentJSON{}, Events: []eventJSON{}, // no null for none
	}
	for _, p := range d.Parents {
		out.Parents = append(out.Parents, parentJSON{p.Step, p.State.String(), output.Payload(p.Output), p.Size})
	}
	for _, e := range d.Events {
		out.Events = append(out.Events, eventJSON{output.Instant(e.At), e.Kind, e.By, e.Class, e.Text})
	}
	return out
}

func runsOf(runs []troupe.RunID) []string {
	list := make([]string, len(runs))
	for i, run := range runs {
		list[i] = run.String()
	}
	return list
}
