package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// The end of one suspect, told while the next is on its way to runs, lets no further
// one in beside it.
func TestASuspectOnItsWayIsOne(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.acquainted(Config{Slots: 4}, newGauge(), 50*time.Millisecond)
		c, is := spawnClaimer(p.rt, &Ports{}, p.Stats().Pod, &claimerState{fenced: true})().(*claimer) // it claims nothing
		require.True(t, is)
		l := newLedger(p.rt.config.pools(), p.rt.config.StuckMax)
		task := func(step int32) *messages.Task {
			return taskKey{task: workflow.TaskID{Step: step}, epoch: 1}.message()
		}
		c.askForSlots()
		c.onSlotsOffered(l.offerAll(c.question))
		handedBack := l.adopt(task(1))

		c.note(&openClaim{}, &persistence.Claimed{Grants: []persistence.Grant{{Suspect: true}}})
		l.drop(handedBack, true)
		freed := l.offerNew()
		require.True(t, freed.GetSuspectEnded())
		c.onSlotsFreed(freed)
		require.False(t, c.offered, "it asks anew, behind what it has handed over")
		started := l.hold(&messages.StartTask{Task: task(2), Suspect: true}, l.pools[0].name)
		c.onSlotsOffered(l.offerAll(c.question))
		require.True(t, c.suspect)

		l.drop(started, true)
		c.onSlotsFreed(l.offerNew())
		c.onSlotsOffered(l.offerAll(c.question))
		require.False(t, c.suspect)
	})
}
