package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/adaptive"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// oneStored is what trigger_single or trigger_single_granted say of a run.
type oneStored int

const (
	oneNothing oneStored = iota // it is not stored
	oneRefused                  // it exists, or the database refuses a value of it
	oneDone
)

// triggerSingle stores a run that is alone in its batch and has one first task: most
// are while there is little to do, and there it is latency that counts, of which the
// set-up of trigger_fast would be a large part. decided is false if trigger_fast is to
// be asked; else, what is not stored needs a decision.
func (f *fastTrigger) triggerSingle(
	ctx context.Context, out *persistence.Triggers, triggers []persistence.Trigger, take persistence.GrantRequest,
) (stored, decided bool, err error) {
	if len(triggers) != 1 || len(f.roots) != 1 {
		return false, false, nil
	}
	if f.serves(take) && lifecycle.Take(1, take.Limit, false) > 0 {
		return f.triggerSingleGranted(ctx, out, triggers, take)
	}
	args := f.oneNamed(&triggers[0])
	args["handler"] = f.roots[0].handler
	args["place"] = lifecycle.FairID(f.roots[0].counter.Group, lifecycle.LaneNew, 0)
	var now time.Time
	said, err := f.storeOne(ctx, "trigger_single", args, &now)
	switch {
	case err != nil || said == oneRefused:
		return false, true, err
	case said == oneNothing:
		f.s.Catalog.ForgetTenants(f.members)
		return false, true, nil
	}
	return true, true, f.answer(ctx, out, triggers, now)
}

// triggerSingleGranted stores the run and grants its first task, if no task waits in the queue. Where
// it did not lately, it is not tried: trigger_fast grants where that is possible.
func (f *fastTrigger) triggerSingleGranted(
	ctx context.Context, out *persistence.Triggers, triggers []persistence.Trigger, take persistence.GrantRequest,
) (stored, decided bool, err error) {
	queue := f.roots[0].counter.Queue
	if !f.s.triggerSinglesGranted.WorthTrying(queue) {
		return false, false, nil
	}
	after, until := f.s.emptyBelow.Known([]int16{queue})
	args := f.oneNamed(&triggers[0])
	args["pod"], args["claim"] = take.Pod, [16]byte(take.Claim)
	args["take_after"], args["take_until"] = after[0], until[0]
	var now time.Time
	said, err := f.storeOne(ctx, "trigger_single_granted", args, &now, &after[0], &until[0])
	switch {
	case err != nil || said == oneRefused:
		return false, true, err
	case said == oneNothing: // mostly because another task waits
		f.s.triggerSinglesGranted.Missed(queue)
		return false, false, nil
	}
	f.s.triggerSinglesGranted.Hit(queue)
	f.s.emptyBelow.Note(adaptive.Looked{Queues: []int16{queue}, After: after, Until: until})
	out.Grants = f.grants(f.roots, take.Claim, now)
	f.roots = nil // no claim can have it
	return true, true, f.answer(ctx, out, triggers, now)
}

// storeOne runs one of the two statements.
func (f *fastTrigger) storeOne(
	ctx context.Context, statement string, args pgsql.Named, targets ...any,
) (said oneStored, err error) {
	text, values := f.s.Bind(statement, args)
	err = pgerr.Retry(ctx, func(ctx context.Context) error {
		said = oneDone
		err := f.s.Conns.QueryRow(ctx, text, values...).Scan(targets...)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			said, err = oneNothing, nil
		case pgerr.HasCode(err, pgerr.CodeUniqueViolation): // it exists: a trigger that is repeated
			said, err = oneRefused, nil
		}
		return err
	})
	if errors.Is(err, persistence.ErrBadRow) || errors.Is(err, pgerr.ErrSchemaRefuses) {
		return oneRefused, nil // to be blamed on it
	}
	return said, err
}

// oneNamed returns the arguments that the two statements have in common.
func (f *fastTrigger) oneNamed(t *persistence.Trigger) pgsql.Named {
	c, root := f.columns, &f.roots[0]
	return pgsql.Named{
		"counter_queue": root.counter.Queue, "run": [16]byte(t.Run), "made": pgsql.MadeAt(t.Run), "young": f.s.recentRunAge.Microseconds(),
		"definition": c.definitions[0], "hash": t.Definition[:], "group": c.groups[0], "remaining": c.remaining[0],
		"events": c.events[0], "queue": c.queues[0], "state": c.states[0], "slow": c.slow[0], "tenant": c.tenants[0],
		"origin": c.origins[0], "trace": c.traces[0], "labels": c.labels[0], "input": c.inputs[0], "step": root.step,
		"tasks": f.tasks,
	}
}
