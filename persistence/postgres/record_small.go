package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/adaptive"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// recordSmallMax is up to how many completions record_small is tried with: where there
// are more at a time, latency is not what counts.
const recordSmallMax = 4

// small returns the queue whose tasks record_small may grant, if that is worth a try: 0 if
// not.
func (f *fastRecord) small() int16 {
	if len(f.indexes) > recordSmallMax || len(f.record.Queues) != 1 || f.record.Limit == 0 {
		return 0
	}
	seen := make(map[workflow.TaskID]bool, len(f.indexes))
	for _, at := range f.indexes {
		t := &f.record.Transitions[at]
		if t.Progress != nil || seen[t.Task] {
			return 0
		}
		seen[t.Task] = true
	}
	queue := f.s.Catalog.QueueNumber(f.record.Queues[0])
	if queue == 0 || !f.s.recordSmall.WorthTrying(queue) {
		return 0
	}
	return queue
}

// queueSmall adds record_small.
func (f *fastRecord) queueSmall(b *pgsql.Batch, queue int16) {
	outputs := make([][]byte, len(f.indexes))
	for i, at := range f.indexes {
		outputs[i] = f.record.Transitions[at].Output
	}
	after, until := f.s.emptyBelow.Known([]int16{queue})
	b.Add("record_small", pgsql.Named{
		"pod": f.record.Pod, "claim": [16]byte(f.record.Claim), "runs": f.runs, "steps": f.steps, "epochs": f.epochs, "outputs": outputs,
		"inline_limit": f.record.Limit, "inline_spare": f.record.Spare, "inline_queue": queue,
		"inline_after": after[0], "inline_until": until[0], "inline_handlers": pgsql.OrEmpty(f.record.Handlers),
	}).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&f.now, &f.known, &f.ords, &f.ended, &f.endedOf, &f.grantedRuns, &f.grantedSteps, &f.grantedEpochs, &after[0], &until[0])
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil // record_fast is to be asked
		case err != nil:
			return err
		}
		f.answered = true
		if len(f.grantedRuns) > 0 { // or no queue was looked at
			f.looked = adaptive.Looked{Queues: []int16{queue}, After: after, Until: until}
		}
		return nil
	})
}
