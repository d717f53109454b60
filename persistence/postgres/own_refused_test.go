package postgres

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// An error that a foreign trigger on the engine's tables raises while a step with a
// transaction is recorded, at once or at the commit, is not the step's fault, even if its
// code says conflict, duplicate key or read-only transaction.
func TestWhatTriggersRaiseIsNotTheStepsFault(t *testing.T) {
	t.Parallel()
	k, pod := withPod(t, storetest.Single())
	ids := k.start(storetest.Single(), "a", 1)
	record := k.completion(pod, k.claim(pod, 1)...)
	for _, code := range []string{
		"23505", "26000", "40001", "40002", "40P01", "25006", "2201E", "P0001", "0A000", "42501", "42P10", "53400", "25P04", "2D000", "25001", "25P02", "3B001",
	} {
		for kind, when := range map[string]string{"trigger": "", "constraint trigger": "deferrable initially deferred"} {
			k.exec(fmt.Sprintf(`create function {schema}.refuse() returns trigger language plpgsql as 'begin raise exception ''no'' using errcode = ''%s''; end';
				create %s mine after update on {schema}.tasks %s for each row execute function {schema}.refuse()`, code, kind, when))
			_, err := k.inTx(record, "select 1")
			require.ErrorIs(t, err, persistence.ErrUnavailable, "%s, %s", code, kind)
			require.NotContains(t, err.Error(), "the step function", "%s, %s", code, kind)
			k.exec("drop function {schema}.refuse() cascade")
		}
	}
	out, err := k.inTx(record, "select 1")
	require.NoError(t, err)
	require.Equal(t, lifecycle.Moved, out.Answers[0].Result)
	k.ends(pod, ids)
}
