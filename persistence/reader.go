package persistence

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

const (
	// ListBudget is how long a listing searches by default: a page is then on a screen
	// before its reader waits for it.
	ListBudget = 40 * time.Millisecond
	// CountMax is how many runs that have not ended are counted of each state: there is no
	// index of them, since each start and end of a run would write to it.
	CountMax = 10_000
	// CountHours is for how long counts of ended runs are kept by the hour, at least.
	// Before that they are kept by the day.
	CountHours = 48 * time.Hour
)

// Reader answers people and their programs about what a store keeps. Nothing is ever
// decided from what it returns. Where rows belong to tenants a call names one; "" stands
// for all, and is for operators.
type Reader interface {
	RunLists
	RunViews
}

// RunLists lists and counts runs.
type RunLists interface {
	// ListRuns returns a page of runs, newest first. Its rows carry no outputs, which may
	// be large; they say whether there is one.
	ListRuns(ctx context.Context, filter RunFilter) (RunList, error)
	// CountRuns counts runs, by state and by what the filter names, in the order of time,
	// tenant, workflow and state. Runs that have ended are counted whether they are in
	// history or not. Groups without runs are left out.
	CountRuns(ctx context.Context, filter CountFilter) ([]RunCount, error)
}

// RunFilter selects runs, newest first. Zero fields select all.
type RunFilter struct {
	Tenant     string // "": every tenant; only for operators
	Workflow   string
	States     []lifecycle.State
	Labels     map[string]string // all must match
	Key        string
	Origin     string
	Class      string         // of the error of the first unhandled failure
	FailedStep string         // the step of it
	Parent     workflow.RunID // whose child runs they are
	Since      time.Time      // created then or later, as the id of the run tells
	Until      time.Time      // created earlier
	Before     workflow.RunID // keyset: runs older than this one
	Limit      int            // at most PageMax; 0: 100
	Budget     time.Duration  // how long to search at most; 0: ListBudget
}

// RunList is a page of runs. It may be short, even empty: the search ends with its budget.
type RunList struct {
	Rows []RunRow
	// Next is the id up to which runs were searched: the Before of the next page. Its time
	// tells how far back that is. Zero: nothing older can match.
	Next workflow.RunID
}

// Page returns how many runs the page has at most.
func (f *RunFilter) Page() int {
	if f.Limit <= 0 {
		return pageDefault
	}
	return min(f.Limit, PageMax)
}

// Patience returns how long to search at most.
func (f *RunFilter) Patience() time.Duration {
	if f.Budget <= 0 {
		return ListBudget
	}
	return f.Budget
}

// Range returns between which ids the runs are: from the first on, below the second.
func (f *RunFilter) Range() (from, before workflow.RunID) {
	before = workflow.RunID(bytes.Repeat([]byte{0xff}, len(before)))
	if !f.Before.IsZero() {
		before = f.Before
	}
	if !f.Until.IsZero() {
		if until := firstAt(f.Until); bytes.Compare(until[:], before[:]) < 0 {
			before = until
		}
	}
	if !f.Since.IsZero() {
		from = firstAt(f.Since)
	}
	return from, before
}

// firstAt is below every id of an instant or later, and above every earlier one. Ids count
// milliseconds.
func firstAt(at time.Time) (id workflow.RunID) {
	milli := at.UnixMilli()
	if at.After(time.UnixMilli(milli)) {
		milli++
	}
	var whole [8]byte
	binary.BigEndian.PutUint64(whole[:], uint64(max(milli, 0)))
	copy(id[:6], whole[2:])
	return id
}

// Open reports whether the filter selects runs that have not ended, and ended whether it
// selects such as have.
func (f *RunFilter) Open() bool { return openStates(f.States) }

// Ended reports whether the filter selects runs that have ended.
func (f *RunFilter) Ended() bool { return endedStates(f.States) }

func openStates(states []lifecycle.State) bool {
	return len(states) == 0 || slices.ContainsFunc(states, func(s lifecycle.State) bool { return !s.Terminal() })
}

func endedStates(states []lifecycle.State) bool {
	return len(states) == 0 || slices.ContainsFunc(states, lifecycle.State.Terminal)
}

// Matches reports whether the filter selects a run.
func (f *RunFilter) Matches(r *RunRow) bool {
	from, before := f.Range()
	if bytes.Compare(r.ID[:], from[:]) < 0 || bytes.Compare(r.ID[:], before[:]) >= 0 {
		return false
	}
	for _, field := range [][2]string{
		{f.Tenant, r.Tenant},
		{f.Workflow, r.Workflow},
		{f.Key, r.Key},
		{f.Origin, r.Origin},
		{f.Class, r.Class},
		{f.FailedStep, r.FailedStep},
	} {
		if field[0] != "" && field[0] != field[1] {
			return false
		}
	}
	for name, value := range f.Labels {
		if own, ok := r.Labels[name]; !ok || own != value {
			return false
		}
	}
	return (f.Parent.IsZero() || f.Parent == r.Parent.Run) && (len(f.States) == 0 || slices.Contains(f.States, r.State))
}

// CountBy says into which groups runs are counted, beside their states.
type CountBy uint8

// What runs are counted by; the values are added.
const (
	ByWorkflow CountBy = 1 << iota
	ByTenant
	ByHour // in which they ended; before CountHours the day
)

// CountFilter selects runs to count. Zero fields select all.
type CountFilter struct {
	Tenant   string // "": every tenant; only for operators
	Workflow string
	States   []lifecycle.State
	// Since and Until bound when runs ended: hours and days that are partly between them
	// are counted as a whole. With one of them, or ByHour, runs that have not ended are
	// left out.
	Since, Until time.Time
	By           CountBy
	// MaxAge is how old the answer may be: calls that ask the same share one. 0: it is
	// made for this call.
	MaxAge time.Duration
}

// Timed reports whether runs are selected or grouped by when they ended.
func (f *CountFilter) Timed() bool { return f.By&ByHour != 0 || !f.Since.IsZero() || !f.Until.IsZero() }

// Open reports whether the filter selects runs that have not ended.
func (f *CountFilter) Open() bool { return !f.Timed() && openStates(f.States) }

// Ended reports whether the filter selects runs that have ended.
func (f *CountFilter) Ended() bool { return endedStates(f.States) }

// HoursFrom is since when counts are kept by the hour: the beginning of a day.
func HoursFrom(now time.Time) time.Time { return now.Add(-CountHours).UTC().Truncate(24 * time.Hour) }

// RunCount is how many runs of a group there are.
type RunCount struct {
	State    lifecycle.State
	Workflow string        // ByWorkflow
	Tenant   string        // ByTenant
	From     time.Time     // ByHour: they ended then or later
	Width    time.Duration // ByHour: an hour or a day
	Runs     int64
	// AtLeast says that there may be more: of runs that have not ended only so many are
	// read (CountMax), and history that an earlier version of the engine has written may
	// not be counted yet. Then a state of which nothing is counted has a count of 0.
	AtLeast bool
}
