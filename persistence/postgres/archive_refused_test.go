package postgres

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/history"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

// Runs whose rows are referenced by a foreign key stay in the live tables and delay no others.
func TestARunWithAForeignReferenceIsNotArchived(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	epoch := k.bump(pod)
	const runs = 3 * history.ArchiveRefusedMax
	ids := k.start(storetest.Single(), "a", runs)
	k.finish(pod)
	k.exec("create table {schema}.orders (run uuid references {schema}.workflow_runs (id))")
	referred := slices.Concat(ids[:1], ids[5:10], ids[runs-history.ArchiveRefusedMax:])
	for _, id := range referred {
		k.exec("insert into {schema}.orders values ($1)", [16]byte(id))
	}
	archive := persistence.Archive{Limit: persistence.ArchiveMax}
	var refused []workflow.RunID
	moved := 0
	for n := 1; ; n++ {
		require.Less(t, n, 5)
		out := k.archived(epoch, archive)
		refused, moved = append(refused, out.Refused...), moved+out.Count
		if len(out.Refused) > 0 {
			require.ErrorContains(t, out.Refusal(), "orders")
			require.ErrorContains(t, out.Refusal(), "take it off")
		}
		if archive.After = out.Next; out.Next.IsZero() {
			break
		}
	}
	require.ElementsMatch(t, referred, refused)
	require.Equal(t, runs-len(referred), moved)
	k.exec("drop table {schema}.orders")
	archive.After = workflow.RunID{}
	out := k.archived(epoch, archive)
	require.Equal(t, len(referred), out.Count)
	require.NoError(t, out.Refusal())
}
