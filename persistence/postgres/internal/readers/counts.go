package readers

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// CountRuns implements persistence.RunLists.
func (s *Reader) CountRuns(ctx context.Context, filter persistence.CountFilter) ([]persistence.RunCount, error) {
	if !pgsql.Storable(filter.Tenant) || !pgsql.Storable(filter.Workflow) {
		return nil, nil
	}
	return s.shared.counts(ctx, filter, func(ctx context.Context) ([]persistence.RunCount, error) {
		ctx, leave, err := s.LargeCaller(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
		return s.countRuns(ctx, &filter)
	})
}

// openStates are those of runs that have not ended.
var openStates = []lifecycle.State{lifecycle.Pending, lifecycle.Running}

func (s *Reader) countRuns(ctx context.Context, f *persistence.CountFilter) (counts []persistence.RunCount, err error) {
	open := []int16{}
	for _, state := range openStates {
		if f.Open() && (len(f.States) == 0 || slices.Contains(f.States, state)) {
			open = append(open, int16(state))
		}
	}
	b := s.NewBatch()
	// A plan for these arguments reads by the index of a tenant, or else whole tables.
	b.Add("set_local", pgsql.Named{
		"names": []string{"plan_cache_mode", "enable_seqscan", "enable_hashjoin"}, "values": []string{"force_custom_plan", "on", "on"},
	})
	b.Add("count_runs", pgsql.Named{
		"tenant": pgsql.TextOrNull(f.Tenant), "workflow": pgsql.TextOrNull(f.Workflow), "states": numbersOf(f.States), "open_states": open,
		"ended": f.Ended(), "timed": f.Timed(), "since": pgsql.Instant(f.Since), "until": pgsql.Instant(f.Until), "most": persistence.CountMax,
		"by_workflow": f.By&persistence.ByWorkflow != 0, "by_tenant": f.By&persistence.ByTenant != 0, "by_hour": f.By&persistence.ByHour != 0,
	}).Query(func(rows pgx.Rows) error {
		counts, err = pgx.CollectRows(rows, scanCount)
		return err
	})
	if err := pgsql.Send(ctx, s.Conns, b); err != nil {
		return nil, pgerr.Translate(err)
	}
	boundOpen(counts)
	return boundEnded(counts, f), nil
}

func scanCount(row pgx.CollectableRow) (persistence.RunCount, error) {
	var (
		c            persistence.RunCount
		state        int16
		name, tenant *string
		from         *time.Time
		width        pgtype.Interval
	)
	err := row.Scan(&state, &name, &tenant, &from, &width, &c.Runs)
	c.State, c.Workflow, c.Tenant = lifecycle.State(state), pgsql.OrZero(name), pgsql.OrZero(tenant)
	if from != nil {
		c.From = from.UTC()
		c.Width = time.Duration(width.Microseconds)*time.Microsecond + time.Duration(width.Days)*24*time.Hour
	}
	return c, err
}

// notCounted is the state of a row that says that not all of history is counted.
const notCounted lifecycle.State = 0

// boundEnded says of which states there may be more in history, also of those that have no
// count.
func boundEnded(counts []persistence.RunCount, f *persistence.CountFilter) []persistence.RunCount {
	at := slices.IndexFunc(counts, func(c persistence.RunCount) bool { return c.State == notCounted })
	if at < 0 {
		return counts
	}
	counts = slices.Delete(counts, at, at+1)
	for _, state := range []lifecycle.State{lifecycle.Completed, lifecycle.Failed, lifecycle.Canceled} {
		found := len(f.States) > 0 && !slices.Contains(f.States, state)
		for i := range counts {
			if counts[i].State == state {
				counts[i].AtLeast, found = true, true
			}
		}
		if !found {
			counts = append(counts, persistence.RunCount{State: state, AtLeast: true})
		}
	}
	return counts
}

// boundOpen says of which states not all runs were read.
func boundOpen(counts []persistence.RunCount) {
	read := map[lifecycle.State]int64{}
	for i := range counts {
		read[counts[i].State] += counts[i].Runs
	}
	for i := range counts {
		if c := &counts[i]; !c.State.Terminal() && read[c.State] > persistence.CountMax {
			c.AtLeast, c.Runs = true, min(c.Runs, persistence.CountMax)
		}
	}
}
