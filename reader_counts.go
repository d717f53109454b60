package troupe

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/persistence"
)

// CountBy says into which groups runs are counted, beside their states.
type CountBy uint8

// What runs are counted by; the values are added.
const (
	CountByWorkflow CountBy = 1 << iota
	CountByTenant
	CountByHour // in which they ended; more than some days ago the day
)

// CountFilter selects runs to count. Zero fields select all.
type CountFilter struct {
	Tenant   string // "": the engine's default tenant; of OpenReader: all
	Workflow string
	States   []State
	// Since and Until bound when runs ended: hours that are partly between them are counted
	// as a whole, and so are days more than some days ago. With one of them, or CountByHour,
	// runs that have not ended are left out.
	Since, Until time.Time
	By           CountBy
}

// RunCount is how many runs of a group there are.
type RunCount struct {
	State    State
	Workflow string        // CountByWorkflow
	Tenant   string        // CountByTenant
	From     time.Time     // CountByHour: they ended then or later
	Width    time.Duration // CountByHour: an hour or a day
	Runs     int64
	// AtLeast says that there may be more. Runs that have not ended are counted up to
	// 10,000 of each state. History that an earlier version of the engine has written is
	// counted some time after the update.
	AtLeast bool
}

// Counts counts runs, by state and by what the filter names, in the order of time, tenant,
// workflow and state. Runs that have ended are counted exactly, whether they are in history
// or not. Groups without runs are left out. An answer may be two seconds old: calls that ask
// the same share one.
func (r *Reader) Counts(ctx context.Context, filter CountFilter) ([]RunCount, error) {
	return readFrom(ctx, r, func(ctx context.Context, from reading) ([]RunCount, error) {
		selected, err := filter.filter(from.tenant)
		if err != nil {
			return nil, err
		}
		rows, err := from.store.CountRuns(ctx, selected)
		if err != nil {
			return nil, err
		}
		counts := make([]RunCount, len(rows))
		for i, row := range rows {
			counts[i] = RunCount(row)
		}
		return counts, nil
	})
}

// countAge is how old an answer may be: one look at the tables serves all who watch.
const countAge = 2 * time.Second

// filter turns a filter into that of the store.
func (f *CountFilter) filter(tenant func(string) string) (persistence.CountFilter, error) {
	out := persistence.CountFilter{
		Tenant: tenant(f.Tenant), Workflow: f.Workflow, States: f.States, Since: f.Since, Until: f.Until,
		By: persistence.CountBy(f.By), MaxAge: countAge,
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return out, fmt.Errorf("count runs: Since is %v: use an instant before Until", f.Since.Format(time.RFC3339))
	}
	if f.By > CountByWorkflow|CountByTenant|CountByHour {
		return out, fmt.Errorf("count runs: By is %d: add CountByWorkflow, CountByTenant and CountByHour, or none", f.By)
	}
	if err := checkStates("count", f.States); err != nil {
		return out, err
	}
	if refused := actors.CheckFilter(f.Tenant, f.Workflow, "", nil); refused != nil {
		return out, fmt.Errorf("count runs: %s: %s", refused.Field, refused.Remedy)
	}
	return out, nil
}

// checkStates refuses states that no run can have.
func checkStates(what string, states []State) error {
	for _, state := range states {
		switch state { //nolint:exhaustive // the others are those of steps
		case StatePending, StateRunning, StateCompleted, StateFailed, StateCanceled:
		default:
			return fmt.Errorf("%s runs: States: no run is %v: use pending, running, completed, failed or canceled", what, state)
		}
	}
	return nil
}
