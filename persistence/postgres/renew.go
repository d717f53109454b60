package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/adaptive"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// RenewPod implements persistence.Lease: one autocommitted statement on a
// connection of its own. If that statement waits too long for a lock, is canceled,
// or meets a damaged page, a second statement renews the lease alone.
//
// That is safe. A living lease tells other pods only that this pod is alive, and the
// pod has just written. The lease permits no write by itself, because each write is
// also fenced by the epoch of its task. The next renewal that compares tells the pod
// the rest. Until then it executes tasks that it has lost, of which nothing is
// recorded, and canceled runs, at most until the grace of the cancel ends. Grants
// whose answer was lost wait until then.
func (s *Store) RenewPod(ctx context.Context, renewal persistence.Renewal) (persistence.Renewed, error) {
	var out persistence.Renewed
	var uncompared error
	err := pgerr.Retry(ctx, func(ctx context.Context) error {
		return s.lease.Use(ctx, func(on *pgx.Conn) error {
			if err := s.lease.Settle(ctx, on, renewal.TTL); err != nil {
				return err
			}
			var err error
			uncompared = nil
			out, err = s.renewAll(ctx, on, renewal)
			if pgerr.HasCode(err, pgerr.CodeLockNotAvailable) || pgerr.HasCode(err, pgerr.CodeQueryCanceled) || pgerr.Unreadable(err) {
				uncompared = pgerr.Translate(err)
				out, err = s.renewOnly(ctx, on, renewal)
			}
			if errors.Is(err, pgx.ErrNoRows) {
				s.claims.Forget(renewal.Pod)
				return persistence.ErrPodDead
			}
			return err
		})
	})
	if err != nil {
		return persistence.Renewed{}, err
	}
	return out, uncompared
}

// renewAll renews the lease and compares what the pod holds with the tables.
func (s *Store) renewAll(ctx context.Context, on *pgx.Conn, renewal persistence.Renewal) (persistence.Renewed, error) {
	counted := s.claims.Counted(renewal.Pod, on)
	text, args := s.renewing(renewal, counted)
	var out persistence.Renewed
	var canceling, unheld, holding [][16]byte
	var stopped, lost, unheldSteps []int32
	var unheldEpochs []int64
	if err := on.QueryRow(ctx, text, args...).Scan(
		&out.Now, &out.Expires, &out.Pods, &out.Executing, &out.Waiting, &out.Idle, &out.Place, &canceling, &stopped, &lost, &unheld, &unheldSteps, &unheldEpochs,
		&holding,
	); err != nil {
		return out, err
	}
	s.claims.Keep(renewal.Pod, counted, holding)
	for _, id := range canceling {
		out.Canceling = append(out.Canceling, id)
	}
	for _, ord := range stopped {
		h := renewal.Held[ord-1]
		out.Stopped = append(out.Stopped, persistence.Held{Task: h.Task, Epoch: h.Epoch})
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

// renewing is the statement of renewAll.
func (s *Store) renewing(renewal persistence.Renewal, counted adaptive.Counted) (text string, args []any) {
	var ids pgsql.UUIDs
	steps, epochs, progress := []int32{}, []int64{}, [][]byte{}
	for _, h := range renewal.Held {
		ids, steps, epochs = append(ids, h.Task.Run), append(steps, h.Task.Step), append(epochs, h.Epoch)
		progress = append(progress, h.Progress)
	}
	return s.Bind("renew_pod", pgsql.Named{
		"pod": renewal.Pod, "ttl": renewal.TTL.Microseconds(), "runs": pgsql.OrEmpty(ids), "steps": steps, "epochs": epochs,
		"progress": progress, "load": int16(renewal.Load), "counted": pgsql.OrEmpty(counted.Claims), "ended": pgsql.OrEmpty(counted.Ended),
	})
}

// renewOnly renews the lease and nothing else.
func (s *Store) renewOnly(ctx context.Context, on *pgx.Conn, renewal persistence.Renewal) (persistence.Renewed, error) {
	text, args := s.Bind("renew_pod_only", pgsql.Named{
		"pod": renewal.Pod, "ttl": renewal.TTL.Microseconds(), "load": int16(renewal.Load),
	})
	var out persistence.Renewed
	err := on.QueryRow(ctx, text, args...).Scan(&out.Now, &out.Expires, &out.Pods, &out.Executing, &out.Waiting, &out.Idle, &out.Place)
	return out, err
}
