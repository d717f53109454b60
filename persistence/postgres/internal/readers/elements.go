package readers

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// Elements implements persistence.Runs.
func (s *Reader) Elements(ctx context.Context, tenant string, of workflow.TaskID, query persistence.ElementQuery) (persistence.ElementPage, error) {
	var page persistence.ElementPage
	if !pgsql.Storable(tenant) {
		return page, persistence.ErrRunNotFound
	}
	states := make([]int16, len(query.States))
	for i, state := range query.States {
		states[i] = int16(state)
	}
	ctx, cancel := pgerr.Bounded(ctx)
	defer cancel()
	text, args := s.Bind("read_elements", pgsql.Named{
		"run": [16]byte(of.Run), "step": of.Step, "tenant": tenant, "after": query.After, "states": states, "limit": query.Page(),
		"outputs": query.Outputs, "most": persistence.ElementsMax,
	})
	rows, err := s.Conns.Query(ctx, text, args...)
	if err != nil {
		return page, pgerr.Translate(err)
	}
	e := elementRow{}
	m, more, found := &page.Map, false, false
	_, err = pgx.ForEachRow(rows, append([]any{&m.Items, &m.Left, &m.Open, &m.Failed, &more}, e.targets()...), func() error {
		found = true
		if e.step != nil {
			page.Rows = append(page.Rows, e.row())
		}
		return nil
	})
	switch {
	case err != nil:
		return persistence.ElementPage{}, pgerr.Translate(err)
	case !found:
		return page, persistence.ErrRunNotFound
	case more:
		page.Next = page.Rows[len(page.Rows)-1].Step
	}
	return page, nil
}

// elementRow is an element as read_elements gives it; all is null where a page has none.
type elementRow struct {
	step, attempt, lost      *int32
	state                    *int16
	epoch, pod               *int64
	name, podName            *string
	output                   []byte
	size                     int
	class, text              *string
	wakes, started, finished *time.Time
	parked                   bool
}

func (e *elementRow) targets() []any {
	return []any{
		&e.step, &e.name, &e.state, &e.epoch, &e.attempt, &e.lost, &e.pod, &e.podName, &e.output, &e.size, &e.class, &e.text,
		&e.wakes, &e.started, &e.finished, &e.parked,
	}
}

func (e *elementRow) row() persistence.TaskRow {
	t := persistence.TaskRow{
		Step: *e.step, Name: pgsql.OrZero(e.name), State: lifecycle.State(*e.state), Epoch: *e.epoch, Attempt: *e.attempt, Lost: *e.lost,
		Pod: *e.pod, PodName: pgsql.OrZero(e.podName), Output: e.output, OutputSize: e.size, Class: pgsql.OrZero(e.class), Error: pgsql.OrZero(e.text),
		WakeAt: pgsql.OrZero(e.wakes), StartedAt: pgsql.OrZero(e.started), FinishedAt: pgsql.OrZero(e.finished), Parked: e.parked,
	}
	if t.State == lifecycle.Running || t.State == lifecycle.Completed {
		t.Attempt++
	}
	return t
}
