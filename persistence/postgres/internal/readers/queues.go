package readers

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// tenantArg is a tenant as an argument: null stands for all, and "", which none is named, for
// one that no column takes.
func tenantArg(tenant string) *string {
	if !pgsql.Storable(tenant) {
		return new(string)
	}
	return pgsql.TextOrNull(tenant)
}

// Queues implements persistence.RunViews.
func (s *Reader) Queues(ctx context.Context, tenant string) ([]persistence.QueueRow, error) {
	ctx, leave, err := s.LargeCaller(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	of := tenantArg(tenant)
	var list []persistence.QueueRow
	at := map[string]int{}
	b := s.NewBatch()
	b.Add("read_queues", pgsql.Named{
		"tenant": of, "queues": persistence.QueuesMax, "most": persistence.WaitingMax, "look": persistence.OldestLook,
	}).Query(func(rows pgx.Rows) error {
		var q persistence.QueueRow
		var waited float64
		_, err := pgx.ForEachRow(rows, []any{&q.Queue, &q.Ready, &q.More, &waited}, func() error {
			q.Waited = max(seconds(waited), 0)
			at[q.Queue] = len(list)
			list = append(list, q)
			return nil
		})
		return err
	})
	var name string
	b.Add("read_places", pgsql.Named{
		"tenant": of, "queues": persistence.QueuesMax, "places": persistence.PlacesMax,
	}).Query(func(rows pgx.Rows) error {
		var p persistence.TenantPlace
		_, err := pgx.ForEachRow(rows, []any{&name, &p.Tenant, &p.Continuing, &p.New}, func() error {
			if i, listed := at[name]; listed { // one made meanwhile is not
				list[i].Places = append(list[i].Places, p)
			}
			return nil
		})
		return err
	})
	b.Add("read_running", pgsql.Named{"tenant": of}).Query(func(rows pgx.Rows) error {
		var running int
		_, err := pgx.ForEachRow(rows, []any{&name, &running}, func() error {
			if i, listed := at[name]; listed {
				list[i].Running = running
			}
			return nil
		})
		return err
	})
	if err := pgsql.Send(ctx, s.Conns, b); err != nil {
		return nil, pgerr.Translate(err)
	}
	return list, nil
}

// ParkedWork implements persistence.RunViews.
func (s *Reader) ParkedWork(ctx context.Context, tenant string) ([]persistence.ParkedRow, error) {
	args := pgsql.Named{
		"tenant": tenantArg(tenant), "handlers": persistence.ParkedMax, "most": persistence.WaitingMax, "look": persistence.OldestLook,
	}
	return readAll(ctx, s, "read_parked", args, func(row pgx.CollectableRow) (persistence.ParkedRow, error) {
		var p persistence.ParkedRow
		var fingerprint []byte
		var since *time.Time
		err := row.Scan(&p.Workflow, &p.Step, &fingerprint, &p.Queue, &p.Tasks, &p.More, &since)
		copy(p.Fingerprint[:], fingerprint)
		p.Since = pgsql.OrZero(since)
		return p, err
	})
}
