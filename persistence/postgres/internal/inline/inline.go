// Package inline chooses which tasks that become ready with a record are granted to its pod at
// once: what the statement of the fast path does for plain successes, for all that is decided.
package inline

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/adaptive"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// Ready is a task that became ready.
type Ready struct {
	Task    workflow.TaskID
	Queue   int16
	Group   int32 // of its tenant
	Handler int32
	Suspect bool
	InTurn  bool // lifecycle.Task.InTurn
}

// Grants are those of one record. They are used by one goroutine.
type Grants struct {
	Record *persistence.Record
	Queues []int16 // of the record, those that are known
	Freed  int     // slots that reports of the record have left so far
	Given  int     // tasks that have been granted with it so far
	Back   map[workflow.TaskID]bool
}

// Choose returns which tasks, in the order of runs and steps, are granted: those that the pod
// executes, as many as it has room for, of tenants that stand alone at the head of their queue
// ([lifecycle.MayInline]).
func (g *Grants) Choose(ctx context.Context, db *pgsql.DB, on pgsql.Querier, below *adaptive.EmptyBelow, ready []Ready) ([]bool, error) {
	may := func(r *Ready) bool {
		return slices.Contains(g.Queues, r.Queue) && !r.Suspect && !g.Back[r.Task] && slices.Contains(g.Record.Handlers, r.Handler)
	}
	places := map[place]bool{}
	for i := range ready {
		if r := &ready[i]; may(r) {
			places[r.place()] = true
		}
	}
	granted := make([]bool, len(ready))
	if len(places) == 0 || g.Given >= g.Record.Limit {
		return granted, nil
	}
	calm, err := g.calm(ctx, db, on, below, places)
	if err != nil {
		return nil, err
	}
	for i := range ready {
		r := &ready[i]
		if may(r) && g.Given < g.Record.Limit && lifecycle.MayInline(g.Given, g.Freed+g.Record.Spare, !calm[r.place()]) {
			granted[i] = true
			g.Given++
		}
	}
	return granted, nil
}

// place is a tenant in a queue. inTurn: of tasks that pass nothing that waits there.
type place struct {
	queue  int16
	group  int32
	inTurn bool
}

func (r *Ready) place() place { return place{r.Queue, r.Group, r.InTurn} }

// calm returns which tenants stand alone at the head of their queue, or none does.
func (g *Grants) calm(
	ctx context.Context, db *pgsql.DB, on pgsql.Querier, below *adaptive.EmptyBelow, places map[place]bool,
) (map[place]bool, error) {
	var queues []int16
	for at := range places {
		if !slices.Contains(queues, at.queue) {
			queues = append(queues, at.queue)
		}
	}
	slices.Sort(queues)
	after, until := below.Known(queues)
	text, args := db.Bind("look_heads", pgsql.Named{"queues": queues, "after": after, "until": until})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	calm, looked := map[place]bool{}, adaptive.Looked{}
	var queue int16
	var groups []int32
	var head adaptive.Head
	_, err = pgx.ForEachRow(rows, []any{&queue, &groups, &head.After, &head.Until}, func() error {
		for at := range places {
			others := slices.ContainsFunc(groups, func(group int32) bool { return at.inTurn || group != at.group })
			if at.queue == queue && !others {
				calm[at] = true
			}
		}
		looked.Queues, looked.After, looked.Until = append(looked.Queues, queue), append(looked.After, head.After), append(looked.Until, head.Until)
		return nil
	})
	below.Note(looked)
	return calm, err
}

// Claim are tasks that are granted.
type Claim struct {
	runs   pgsql.UUIDs
	steps  []int32
	epochs []int64
}

// Add adds a task that is granted under an epoch.
func (c *Claim) Add(task workflow.TaskID, epoch int64) {
	c.runs, c.steps, c.epochs = append(c.runs, task.Run), append(c.steps, task.Step), append(c.epochs, epoch)
}

// Queue adds the statement that stores them under the claim of a record.
func (c *Claim) Queue(b *pgsql.Batch, record *persistence.Record) {
	if len(c.runs) > 0 {
		b.Add("insert_claim", pgsql.Named{"pod": record.Pod, "claim": [16]byte(record.Claim), "runs": c.runs, "steps": c.steps, "epochs": c.epochs})
	}
}
