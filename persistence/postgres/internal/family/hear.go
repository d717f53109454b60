package family

import (
	"bytes"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/readers"
	"github.com/troupe-dev/troupe/workflow"
)

// HearMax is how many news one transaction tells at most for each request that it may carry out:
// it copies as many outputs. There are more than requests, so that some of them are told which
// change something.
const HearMax = 5

// Asked are runs that may not have heard of others.
type Asked struct {
	Waiting  pgsql.UUIDs // their steps may wait for child runs
	children pgsql.UUIDs // that are asked to stop if the step which began them does not wait
	parents  pgsql.UUIDs // of each of these, the run of that step
	steps    []int32
}

// Child adds a child run that does not outlive the step which began it.
func (a *Asked) Child(run workflow.RunID, parent workflow.TaskID) {
	a.children, a.parents, a.steps = append(a.children, run), append(a.parents, parent.Run), append(a.steps, parent.Step)
}

// Any reports whether there are any.
func (a *Asked) Any() bool { return len(a.Waiting)+len(a.children) > 0 }

// News are what runs have not heard.
type News struct {
	Facts map[workflow.RunID][]lifecycle.Fact
	Cut   map[workflow.RunID]bool // runs of which not all was read
	Left  map[workflow.RunID]bool // runs that wait for one whose definition is missing: what its output is, is not known
}

// news is that the child run of a step has ended or is gone; or of lifecycle.RunStep, that the
// step which began the run does not wait for it.
type news struct {
	task  workflow.TaskID
	child workflow.RunID
}

// Hear reads what runs have not heard, on a transaction that has locked them, and at most so much.
func Hear(ctx context.Context, db *pgsql.DB, on pgsql.Querier, of *Asked, most int) (out News, err error) {
	if !of.Any() {
		return out, nil
	}
	text, args := db.Bind("load_family", pgsql.Named{
		"runs": pgsql.OrEmpty(of.Waiting), "children": pgsql.OrEmpty(of.children), "parents": pgsql.OrEmpty(of.parents),
		"steps": pgsql.OrEmpty(of.steps), "most": most,
	})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return out, err
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n news, err error) {
		var child pgtype.UUID
		err = row.Scan((*[16]byte)(&n.task.Run), &n.task.Step, &child)
		n.child = child.Bytes
		return n, err
	})
	if err != nil {
		return out, err
	}
	if len(list) == most { // those of the last run, and of the runs behind it, may not be all
		last := list[most-1].task.Run
		out.Cut = map[workflow.RunID]bool{}
		for _, id := range slices.Concat(of.Waiting, of.children) {
			out.Cut[id] = out.Cut[id] || bytes.Compare(id[:], last[:]) >= 0
		}
	}
	ended, err := readEnded(ctx, db, on, list)
	if err != nil {
		return out, err
	}
	out.note(list, ended)
	return out, nil
}

// readEnded reads child runs, wherever they are.
func readEnded(ctx context.Context, db *pgsql.DB, on pgsql.Querier, list []news) (map[workflow.RunID]*persistence.RunRow, error) {
	var ids pgsql.UUIDs
	for _, n := range list {
		if n.task.Step >= 0 {
			ids = append(ids, n.child)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := readers.RunRows(ctx, db, on, pgsql.Named{"runs": ids, "outputs": false, "tenant": nil})
	ended := make(map[workflow.RunID]*persistence.RunRow, len(rows))
	for i := range rows {
		ended[rows[i].ID] = &rows[i]
	}
	return ended, err
}

// note makes facts of news, of a run those of its child runs first.
func (n *News) note(list []news, ended map[workflow.RunID]*persistence.RunRow) {
	n.Facts, n.Left = map[workflow.RunID][]lifecycle.Fact{}, map[workflow.RunID]bool{}
	for _, one := range list {
		run, row := one.task.Run, ended[one.child]
		switch {
		case one.task.Step < 0:
		case row != nil && row.Workflow == "":
			n.Left[run] = true
		default:
			n.Facts[run] = append(n.Facts[run], childEnded(one, row))
		}
	}
	for _, one := range list {
		if run := one.task.Run; one.task.Step < 0 {
			n.Facts[run] = append(n.Facts[run], persistence.ParentCanceled())
		}
	}
}

// childEnded says how a child run has ended; nil: its rows are gone.
func childEnded(one news, row *persistence.RunRow) lifecycle.ChildEnded {
	fact := lifecycle.ChildEnded{Step: one.task.Step, Run: one.child.String()}
	switch {
	case row == nil:
	case row.State == lifecycle.Completed && !row.HasOutput:
		fact.State = lifecycle.Skipped
	case row.State == lifecycle.Canceled:
		fact.State, fact.Error = row.State, row.CancelReason
	default:
		fact.State, fact.Failed, fact.Class, fact.Error = row.State, row.FailedStep, row.Class, row.Error
	}
	return fact
}
