package troupe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// DeadReason says why a step failed for good. In JSON, logs and SQL it is its name.
type DeadReason = lifecycle.DeadReason

// The reasons. Config.DeadReasons says which become dead letters.
const (
	DeadAttemptsExhausted = lifecycle.AttemptsExhausted // its last attempt failed with an error worth a retry
	DeadNonRetryable      = lifecycle.NonRetryable      // a Terminal error, one that Retry.If or Retry.Never refuses, or a condition that panicked
	DeadPoison            = lifecycle.PoisonPill        // its pods died with it, Config.MaxLost times
	DeadUnregistered      = lifecycle.Unregistered      // no living pod registered it before its ScheduleToStart was over
	DeadUndecodable       = lifecycle.Undecodable       // a value that could not be decoded, encoded or stored
	DeadTimedOut          = lifecycle.TimedOut          // its last attempt, or its wait in the queue, took too long
)

// ParseDeadReason reads the name of a reason, such as "timed_out".
func ParseDeadReason(name string) (DeadReason, error) { return lifecycle.ParseDeadReason(name) }

// What a call about dead letters can meet. Use errors.Is.
var (
	// ErrDeadLetterNotFound: no dead letter with this id belongs to this tenant.
	ErrDeadLetterNotFound = persistence.ErrDeadLetterNotFound
	// ErrRequeuedBefore: the dead letter was requeued before; RequeueOptions.Again
	// requeues it once more.
	ErrRequeuedBefore = errors.New("dead letter was requeued before")
	// ErrRunGoesOn: the run of the dead letter has not ended. Wait for its end or
	// cancel it.
	ErrRunGoesOn = errors.New("the run of the dead letter has not ended")
	// ErrRunGone: the run of the dead letter is no longer kept, so there is nothing
	// to go on from. RequeueOptions.FromStart begins anew.
	ErrRunGone = errors.New("the run of the dead letter is no longer kept")
	// ErrFailureHandled: the state machine of the run has handled the failure, or has completed,
	// so a run that continues from its state has no use for the activity. Requeue the letter of the
	// machine itself, if it has one; trigger a new run; or begin anew with RequeueOptions.FromStart.
	ErrFailureHandled = errors.New("the machine of the run has handled the failure")
)

// DeadLetter is a step of a run that failed for good. It outlives its run.
type DeadLetter struct {
	ID         string     `json:"id"` // run and step; see DeadLetters.Show
	Run        RunID      `json:"run"`
	Workflow   string     `json:"workflow"`
	Step       string     `json:"step"`
	Handler    string     `json:"handler"` // how the fingerprint of the step begins, which is that of its version; "": not known any more
	Queue      string     `json:"queue"`   // that the step waited in
	Tenant     string     `json:"tenant"`
	Reason     DeadReason `json:"reason"`
	Class      string     `json:"class"`    // of its last error; see [Class]
	Error      string     `json:"error"`    // its text, at most 8 KiB
	Attempts   int        `json:"attempts"` // that ended with an error
	Losses     int        `json:"losses"`   // attempts lost with their pod
	Handled    bool       `json:"handled"`  // the failure did not fail the run by itself: children of the step hold it by [Settled], or a state machine hears of it
	CreatedAt  time.Time  `json:"created_at"`
	StartedAt  time.Time  `json:"started_at,omitzero"` // of the last attempt; zero: there was none
	DiedAt     time.Time  `json:"died_at"`
	Requeues   int        `json:"requeues"`
	RequeuedAt time.Time  `json:"requeued_at,omitzero"` // the last time; zero: never
	RequeuedAs RunID      `json:"requeued_as,omitzero"` // the run of the last requeue
}

// DeadLetterDetail is a dead letter with all that is known of it.
type DeadLetterDetail struct {
	DeadLetter

	RunKept bool         `json:"run_kept"` // its run can be read, and gone on from
	Input   []byte       `json:"-"`        // of the run, as the codec encoded it. In JSON it is "input"
	Parents []DeadParent `json:"parents"`  // of the step, in the order of its parameters; none once the run is gone
	Events  []Event      `json:"events"`   // of the step, oldest first; the last 100
}

// DeadParent is how a parent of a dead step ended.
type DeadParent struct {
	Step   string `json:"step"`
	State  State  `json:"state"`
	Output []byte `json:"-"`    // as the codec encoded it; nil: none, or more than 64 KiB. In JSON it is "output"
	Size   int    `json:"size"` // of the output, in bytes
}

// DeadLetterFilter selects dead letters. Zero fields select all.
type DeadLetterFilter struct {
	Tenant       string // "": the default one; of OpenDeadLetters: all
	Workflow     string
	Step         string
	Queue        string // that the step waited in
	Handler      string // version of the step: DeadLetter.Handler, or at least 8 digits of its fingerprint
	Reasons      []DeadReason
	OlderThan    time.Duration // died at least so long ago, by the database's clock
	YoungerThan  time.Duration // died less than so long ago
	NotRequeued  bool          // only those that were never requeued
	RequeuedOnly bool          // only those that were
	Newest       bool          // those of the newest runs first; not for Count and Purge
	After        string        // id of the last letter of the page before
	Limit        int           // of a page; 0: 100, at most 1000. RequeueAll and Purge: of all; 0: none
}

// DeadLetterPage is one page of a listing.
type DeadLetterPage struct {
	Letters []DeadLetter `json:"letters"`
	Next    string       `json:"next,omitzero"` // pass it as After for the next page; "": this was the last one
}

// filter turns a filter into that of the store.
func (f *DeadLetterFilter) filter(tenant func(string) string) (persistence.DeadFilter, error) {
	out := persistence.DeadFilter{
		Tenant: tenant(f.Tenant), Workflow: f.Workflow, Step: f.Step, Queue: f.Queue, Handler: f.Handler, Reasons: f.Reasons,
		OlderThan: f.OlderThan, YoungerThan: f.YoungerThan, Newest: f.Newest, Limit: f.Limit,
	}
	switch {
	case f.NotRequeued && f.RequeuedOnly:
		return out, errors.New("filter dead letters: NotRequeued and RequeuedOnly exclude each other: set one")
	case f.OlderThan < 0 || f.OlderThan > durationMax:
		return out, fmt.Errorf("filter dead letters: OlderThan is %v: use 0 to 100 years", f.OlderThan)
	case f.YoungerThan < 0 || f.YoungerThan > durationMax:
		return out, fmt.Errorf("filter dead letters: YoungerThan is %v: use 0 to 100 years", f.YoungerThan)
	case f.Handler != "" && !isHandler(f.Handler):
		return out, fmt.Errorf("filter dead letters: Handler is %.80q: use what DeadLetter.Handler has, 8 to 64 hexadecimal digits in lower case", f.Handler)
	case f.Limit < 0:
		return out, fmt.Errorf("filter dead letters: Limit is %d: use 0 or more", f.Limit)
	case f.NotRequeued:
		out.Requeued = persistence.NotRequeued
	case f.RequeuedOnly:
		out.Requeued = persistence.RequeuedOnce
	}
	if refused := actors.CheckFilter(f.Tenant, f.Workflow, f.Step, nil); refused != nil {
		return out, fmt.Errorf("filter dead letters: %s: %s", refused.Field, refused.Remedy)
	}
	if refused := actors.CheckFilter("", "", f.Queue, nil); refused != nil {
		return out, fmt.Errorf("filter dead letters: Queue: %s", refused.Remedy)
	}
	if f.After == "" {
		return out, nil
	}
	var err error
	if out.After, err = parseDeadID(f.After); err != nil {
		return out, fmt.Errorf("filter dead letters: After: %w", err)
	}
	return out, nil
}

// isHandler reports whether a fingerprint may begin with a text that is long enough to tell
// it from others.
func isHandler(text string) bool {
	return len(text) >= 8 && len(text) <= 2*len(workflow.Hash{}) && strings.Trim(text, "0123456789abcdef") == ""
}

func deadID(task workflow.TaskID) string {
	return task.Run.String() + "/" + strconv.Itoa(int(task.Step))
}

// parseDeadID undoes deadID.
func parseDeadID(text string) (workflow.TaskID, error) {
	run, step, _ := strings.Cut(text, "/")
	id, err := workflow.ParseRunID(run)
	n, stepErr := strconv.ParseInt(step, 10, 32)
	if err != nil || stepErr != nil || n < 0 || strconv.FormatInt(n, 10) != step { // one letter, one id
		return workflow.TaskID{}, fmt.Errorf("%.80q is not the id of a dead letter: want one as listed, such as 0190c2f3-7a1b-7c3d-8e4f-0123456789ab/3", text)
	}
	return workflow.TaskID{Run: id, Step: int32(n)}, nil
}

func deadLetter(l *persistence.DeadLetter) DeadLetter {
	return DeadLetter{
		ID: deadID(l.Task), Run: l.Task.Run, Workflow: l.Workflow, Step: l.Step,
		Handler: handlerText(l.Handler), Queue: l.Queue, Tenant: l.Tenant, Reason: l.Reason,
		Class: l.Class, Error: l.Error, Attempts: int(l.Attempts), Losses: int(l.Lost), Handled: l.Handled,
		CreatedAt: utc(l.CreatedAt), StartedAt: utc(l.StartedAt), DiedAt: utc(l.DiedAt),
		Requeues: int(l.Requeues), RequeuedAt: utc(l.RequeuedAt), RequeuedAs: l.RequeuedAs,
	}
}

// DeadLetters reads, requeues and purges dead letters. Engine.DeadLetters gives
// that of an engine, OpenDeadLetters one without an engine, for tools. It is
// safe for concurrent use.
type DeadLetters struct {
	open func() (deadOffice, error)
	shut func() error // nil: it has no connections of its own
}

// Close gives back what OpenDeadLetters opened.
func (d *DeadLetters) Close() error {
	if d.shut == nil {
		return nil
	}
	return d.shut()
}

// deadOffice is where dead letters are and what helps to requeue them.
type deadOffice struct {
	store  persistence.DeadLetters
	tenant func(string) string
	newRun func() RunID
	// judge says what conditions on an input say for a run that continues, or
	// begins anew if fresh; false: the workflow is not registered here.
	judge func(letter *persistence.DeadDetail, order *persistence.RequeueOrder) (bool, error)
	// encode encodes a new input; nil: no codec is known here.
	encode   func(letter *persistence.DeadDetail, value any) ([]byte, error)
	inputMax int                              // bytes of a new input
	stored   func(ctx context.Context)        // tells the pods
	trace    func(ctx context.Context) string // of the caller of a requeue; "": none
}

// List returns one page, those of the oldest runs first, or of the newest.
func (d *DeadLetters) List(ctx context.Context, filter DeadLetterFilter) (DeadLetterPage, error) {
	return called(ctx, func(ctx context.Context) (DeadLetterPage, error) { return d.list(ctx, filter) })
}

func (d *DeadLetters) list(ctx context.Context, filter DeadLetterFilter) (DeadLetterPage, error) {
	office, err := d.open()
	if err != nil {
		return DeadLetterPage{}, err
	}
	selected, err := filter.filter(office.tenant)
	if err != nil {
		return DeadLetterPage{}, err
	}
	rows, err := office.store.ListDeadLetters(ctx, selected)
	if err != nil {
		return DeadLetterPage{}, err
	}
	page := DeadLetterPage{Letters: make([]DeadLetter, len(rows))}
	for i := range rows {
		page.Letters[i] = deadLetter(&rows[i])
	}
	if len(rows) == selected.Page() {
		page.Next = page.Letters[len(rows)-1].ID
	}
	return page, nil
}

// Count returns how many there are.
func (d *DeadLetters) Count(ctx context.Context, filter DeadLetterFilter) (int, error) {
	office, err := d.open()
	if err != nil {
		return 0, err
	}
	selected, err := filter.filter(office.tenant)
	if err != nil {
		return 0, err
	}
	return called(ctx, func(ctx context.Context) (int, error) { return office.store.CountDeadLetters(ctx, selected) })
}

// Show returns one dead letter of a tenant ("": as in a filter) with its
// details, or [ErrDeadLetterNotFound].
func (d *DeadLetters) Show(ctx context.Context, tenant, id string) (DeadLetterDetail, error) {
	office, err := d.open()
	if err != nil {
		return DeadLetterDetail{}, err
	}
	task, err := parseDeadID(id)
	if err != nil {
		return DeadLetterDetail{}, err
	}
	found, err := called(ctx, func(ctx context.Context) (persistence.DeadDetail, error) {
		return office.store.DeadLetter(ctx, office.tenant(tenant), task)
	})
	if err != nil {
		return DeadLetterDetail{}, err
	}
	detail := DeadLetterDetail{
		DeadLetter: deadLetter(&found.DeadLetter), RunKept: found.RunKept, Input: found.Input,
		Parents: make([]DeadParent, 0, len(found.Parents)), Events: make([]Event, 0, len(found.Events)),
	}
	for _, p := range found.Parents {
		detail.Parents = append(detail.Parents, DeadParent{Step: p.Step, State: p.State, Output: p.Output, Size: p.Size})
	}
	for _, e := range found.Events {
		detail.Events = append(detail.Events, publicEvent(e, found.Step))
	}
	return detail, nil
}

// Purge removes the selected dead letters and returns how many, those of the oldest runs
// first. Nothing else of their runs is touched.
func (d *DeadLetters) Purge(ctx context.Context, filter DeadLetterFilter) (int, error) {
	office, err := d.open()
	if err != nil {
		return 0, err
	}
	selected, err := filter.filter(office.tenant)
	if err != nil {
		return 0, err
	}
	if filter.Newest {
		return 0, errors.New("purge dead letters: Newest is for List and RequeueAll: leave it out")
	}
	total := 0
	for {
		if filter.Limit > 0 {
			selected.Limit = min(filter.Limit-total, persistence.PurgeMax)
		}
		purged, err := called(ctx, func(ctx context.Context) (int, error) { return office.store.PurgeDeadLetters(ctx, selected) })
		total += purged
		if err != nil || purged < selected.Purge() || filter.Limit > 0 && total >= filter.Limit {
			return total, err
		}
	}
}
