package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// RenewPod implements persistence.Lease: one statement, autocommitted, on a
// connection of its own. If that waits for a lock, because somebody rewrites or
// alters a table, takes too long, or meets a page that the disk has lost, a second
// one renews the lease alone.
//
// That is safe. A living lease says one thing to others, that this pod's tasks
// are not to be taken because of its death, and it is alive: it has just
// written. It permits no write by itself, because each is fenced by the epoch of
// its task, too. What the pod does not learn meanwhile, it learns with the next
// renewal that compares: a task that is not its own any more is executed until
// then, and nothing of it is recorded; a run that is to stop goes on until then,
// or until the grace of its cancel ends; a grant that was lost on its way waits
// until then. Nothing but a lock that is held, a database too slow for the
// comparison, or one that cannot read all of it keeps that from coming.
func (s *Store) RenewPod(ctx context.Context, renewal persistence.Renewal) (persistence.Renewed, error) {
	var out persistence.Renewed
	err := retry(ctx, func(ctx context.Context) error {
		return s.lease.Use(ctx, func(on *pgx.Conn) error {
			if err := s.lease.Settle(ctx, on, renewal.TTL); err != nil {
				return err
			}
			var err error
			out, err = s.renewAll(ctx, on, renewal)
			if hasCode(err, codeLockNotAvailable) || hasCode(err, codeQueryCanceled) || unreadable(err) {
				cause := translate(err)
				out, err = s.renewOnly(ctx, on, renewal)
				out.Uncompared = cause
			}
			if errors.Is(err, pgx.ErrNoRows) {
				return persistence.ErrPodDead
			}
			return err
		})
	})
	if err != nil {
		return persistence.Renewed{}, err
	}
	return out, nil
}

// renewAll renews the lease and compares what the pod holds with the tables.
func (s *Store) renewAll(ctx context.Context, on *pgx.Conn, renewal persistence.Renewal) (persistence.Renewed, error) {
	var ids uuids
	steps, epochs, progress := []int32{}, []int64{}, [][]byte{}
	for _, h := range renewal.Held {
		ids, steps, epochs = append(ids, h.Task.Run), append(steps, h.Task.Step), append(epochs, h.Epoch)
		progress = append(progress, h.Progress)
	}
	text, args := s.statements.bind("renew_pod", named{
		"pod": renewal.Pod, "ttl": renewal.TTL.Microseconds(), "runs": orEmpty(ids), "steps": steps, "epochs": epochs,
		"progress": progress, "load": int16(renewal.Load),
	})
	var out persistence.Renewed
	var canceling, unheld [][16]byte
	var lost, unheldSteps []int32
	var unheldEpochs []int64
	if err := on.QueryRow(ctx, text, args...).Scan(
		&out.Now, &out.Expires, &out.Pods, &out.Waiting, &out.Idle, &out.Place, &canceling, &lost, &unheld, &unheldSteps, &unheldEpochs,
	); err != nil {
		return out, err
	}
	for _, id := range canceling {
		out.Canceling = append(out.Canceling, id)
	}
	for _, ord := range lost {
		out.Lost = append(out.Lost, renewal.Held[ord-1])
	}
	for i, id := range unheld {
		out.Unheld = append(out.Unheld, persistence.Held{
			Task: workflow.TaskID{Run: id, Step: unheldSteps[i]}, Epoch: unheldEpochs[i],
		})
	}
	return out, nil
}

// renewOnly renews the lease and nothing else.
func (s *Store) renewOnly(ctx context.Context, on *pgx.Conn, renewal persistence.Renewal) (persistence.Renewed, error) {
	text, args := s.statements.bind("renew_pod_only", named{
		"pod": renewal.Pod, "ttl": renewal.TTL.Microseconds(), "load": int16(renewal.Load),
	})
	var out persistence.Renewed
	err := on.QueryRow(ctx, text, args...).Scan(&out.Now, &out.Expires, &out.Pods, &out.Waiting, &out.Idle, &out.Place)
	return out, err
}
