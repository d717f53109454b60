package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// Terms that are short keep no run that has ended out of history, and no
// history from being dropped: otherwise the tables would grow for as long as
// leaders come and go.
func TestShortTermsDoNotStarveHistory(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		w.register(storetest.Single(), newGauge().work(time.Millisecond))
		config := Config{Retention: persistence.Retention{time.Minute, time.Minute, time.Minute}}
		leader := w.start(config)
		run := w.trigger(leader, "single")
		w.completed(run)
		for range 10 {
			next := w.start(config)
			pass(30 * time.Second)
			leader.Kill()
			leader = next
		}
		_, err := w.store.Run(t.Context(), "", run)
		require.ErrorIs(t, err, persistence.ErrRunNotFound, "the run is kept for a minute, and five have passed")
	})
}
