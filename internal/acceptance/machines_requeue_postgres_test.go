package acceptance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// On real tables, with two pods: a machine fails, and continues from its state.
func TestAMachineGoesOnFromItsStateOnPostgres(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, pgtest.Database(t))
	migrate(t, pool)
	p := newShipment()
	machine := p.machine(time.Second)
	config := troupe.Config{Codec: sealed{troupe.JSON{}}}
	joined(t, pool, config, machine)
	engine, handle := joined(t, pool, config, machine)
	p.goOn(t, engine, machine, handle, func(run *troupe.Run[shipmentState]) {
		require.Eventually(t, func() bool {
			state, err := machine.State(t.Context(), run)
			return err == nil && len(state.Charged) == 2
		}, time.Minute, 20*time.Millisecond)
	})
}
