package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// queueTenants adds the statement that reads the groups of tenants.
func (t *triggering) queueTenants(b *pgsql.Batch, tenants []string) {
	b.Add("find_tenants", pgsql.Named{"tenants": tenants}).Query(func(rows pgx.Rows) error {
		return readTenants(rows, t.found.tenants)
	})
}

func readTenants(rows pgx.Rows, into map[string]int32) error {
	var name string
	var group int32
	_, err := pgx.ForEachRow(rows, []any{&name, &group}, func() error {
		into[name] = group
		return nil
	})
	return err
}

// newTenants returns the tenants of triggers that have no group yet, in order.
func (t *triggering) newTenants(indexes []int) []string {
	var missing []string
	seen := map[string]bool{}
	for _, i := range indexes {
		name := t.triggers[i].Tenant
		if t.found.tenants[name] == 0 && !seen[name] {
			seen[name] = true
			missing = append(missing, name)
		}
	}
	return missing
}

// createTenants gives tenants groups, as long as there are any, and notes which
// get none. The statements come after the one that locks, so that they see
// what the previous holder committed.
func (t *triggering) createTenants(ctx context.Context, missing []string) error {
	b := t.s.NewBatch()
	b.Add("lock_tenants", pgsql.Named{"key": t.s.LockKey("tenants")})
	b.Add("insert_tenants", pgsql.Named{"tenants": missing, "group_max": t.s.tenantsMax})
	t.queueTenants(b, missing)
	if err := pgsql.Send(ctx, t.tx, b); err != nil {
		return err
	}
	for _, name := range missing {
		if t.found.tenants[name] == 0 {
			t.found.full[name] = true
		}
	}
	return nil
}

// drainTenants returns the groups of the tenants of submitted runs. New ones
// get theirs in the order of the submissions.
func (t *triggering) drainTenants(
	ctx context.Context, taken []submission, runs map[workflow.RunID]*run,
) (map[string]int32, error) {
	t.found.tenants, t.found.full = map[string]int32{}, map[string]bool{}
	var all []string
	seen := map[string]bool{}
	for i := range taken {
		r := runs[taken[i].trigger.Run]
		if r != nil && !r.core.State.Terminal() && !seen[r.tenant] {
			seen[r.tenant] = true
			all = append(all, r.tenant)
		}
	}
	b := t.s.NewBatch()
	t.queueTenants(b, all)
	if err := pgsql.Send(ctx, t.tx, b); err != nil {
		return nil, err
	}
	var missing []string
	for _, name := range all {
		if t.found.tenants[name] == 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		if err := t.createTenants(ctx, missing); err != nil {
			return nil, err
		}
	}
	return t.found.tenants, nil
}

// submission is a row of the intake table.
type submission struct {
	id      int64
	trigger persistence.Trigger // run, tenant, instant and conditions only
	kept    []int32             // steps that another run has completed
}
