package readers

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// Elements implements persistence.Runs. A page is read by ranges of numbers: how many rows these
// have at most does not depend on what the database expects. The first one usually has the page;
// where few elements are selected, the next ones are larger.
func (s *Reader) Elements(ctx context.Context, tenant string, of workflow.TaskID, query persistence.ElementQuery) (persistence.ElementPage, error) {
	if !pgsql.Storable(tenant) {
		return persistence.ElementPage{}, persistence.ErrRunNotFound
	}
	ctx, cancel := pgerr.Bounded(ctx)
	defer cancel()
	r := elementReader{s: s, tenant: tenant, of: of, query: query, room: persistence.ElementsMax}
	after := int64(max(query.After, 0))
	for span := int64(query.Page() + elementsAhead); ; span *= elementsWider {
		until := min(after+span, math.MaxInt32)
		highest, more, err := r.read(ctx, after, until)
		switch {
		case err != nil:
			return persistence.ElementPage{}, pgerr.Translate(err)
		case more:
			r.page.Next = r.page.Rows[len(r.page.Rows)-1].Step
			return r.page, nil
		case until >= highest:
			return r.page, nil
		}
		after = until
	}
}

const (
	// elementsAhead is how many numbers the first range has beside those of a page: those of the steps.
	elementsAhead = 100
	// elementsWider is how much larger than the last one the next range is.
	elementsWider = 4
)

// elementReader reads one page.
type elementReader struct {
	s      *Reader
	tenant string
	of     workflow.TaskID
	query  persistence.ElementQuery
	page   persistence.ElementPage
	room   int // bytes
}

// read adds the elements of a range to the page, and reports whether there are more of them. What
// a page has no room for is looked for, and not read.
func (r *elementReader) read(ctx context.Context, after, until int64) (highest int64, more bool, err error) {
	states := make([]int16, len(r.query.States))
	for i, state := range r.query.States {
		states[i] = int16(state)
	}
	text, args := r.s.Bind("read_elements", pgsql.Named{
		"run": [16]byte(r.of.Run), "step": r.of.Step, "tenant": r.tenant, "after": after, "until": until, "states": states,
		"limit": r.query.Page() - len(r.page.Rows), "outputs": r.query.Outputs, "most": r.room,
	})
	rows, err := r.s.Conns.Query(ctx, text, args...)
	if err != nil {
		return 0, false, err
	}
	e, m, found := elementRow{}, &r.page.Map, false
	targets := append([]any{&m.Items, &m.Left, &m.Open, &m.Failed, &highest, &more}, e.targets()...)
	_, err = pgx.ForEachRow(rows, targets, func() error {
		found = true
		if e.step == nil {
			return nil
		}
		r.page.Rows = append(r.page.Rows, e.row())
		if r.query.Outputs {
			r.room -= len(e.output)
		}
		return nil
	})
	if err == nil && !found {
		err = persistence.ErrRunNotFound
	}
	return highest, more, err
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
