package readers

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// The kinds of rows of read_backlog.
const (
	backlogQueue int16 = 1 + iota
	backlogParked
	backlogDead
	backlogIntake
	backlogTx
)

// Backlog implements persistence.Backlogs.
func (s *Reader) Backlog(ctx context.Context) (persistence.Backlog, error) {
	ctx, leave, err := s.ExplainCaller(ctx)
	if err != nil {
		return persistence.Backlog{}, err
	}
	defer leave()
	i := Inspector{pool: s.Conns, schema: s.Schema, statements: s.Statements}
	var out persistence.Backlog
	err = i.read(ctx, func(r *situationReader) error {
		out = persistence.Backlog{}
		return r.backlog(&out)
	})
	if err != nil {
		return persistence.Backlog{}, err
	}
	slices.SortFunc(out.Queues, func(a, b persistence.QueueBacklog) int { return strings.Compare(a.Queue, b.Queue) })
	slices.SortFunc(out.Parked, func(a, b persistence.ParkedBacklog) int {
		return cmp.Or(strings.Compare(a.Workflow, b.Workflow), strings.Compare(a.Step, b.Step))
	})
	slices.SortFunc(out.Dead, func(a, b persistence.DeadBacklog) int { return cmp.Compare(a.Reason, b.Reason) })
	return out, nil
}

func (r *situationReader) backlog(out *persistence.Backlog) error {
	var (
		of, reason int16
		name, step string
		count      int
		at         *time.Time
		seconds    float64
	)
	args := pgsql.Named{"most": persistence.BacklogMax, "most_dead": persistence.BacklogDeadMax, "look": persistence.BacklogLook}
	return r.each("read_backlog", args, []any{&out.Now, &of, &name, &step, &reason, &count, &at, &seconds}, func() {
		switch of {
		case backlogQueue:
			out.Queues = append(out.Queues, persistence.QueueBacklog{Queue: name, Ready: count, Oldest: pgsql.OrZero(at)})
		case backlogParked:
			out.Parked = append(out.Parked, persistence.ParkedBacklog{Workflow: name, Step: step, Count: count})
		case backlogDead:
			out.Dead = append(out.Dead, persistence.DeadBacklog{Reason: lifecycle.DeadReason(reason), Count: count})
		case backlogIntake:
			out.Intake = pgsql.OrZero(at)
		case backlogTx:
			out.OldTx = time.Duration(seconds * float64(time.Second))
		}
	})
}
