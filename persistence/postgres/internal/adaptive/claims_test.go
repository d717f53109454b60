package adaptive

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// grantsOf returns first grants of so many tasks of a run.
func grantsOf(run byte, n int) []persistence.Grant {
	grants := make([]persistence.Grant, n)
	for i := range grants {
		grants[i] = persistence.Grant{Task: workflow.TaskID{Run: workflow.RunID{run}, Step: int32(i)}, Epoch: 2}
	}
	return grants
}

func TestClaimsCountWhatHasEnded(t *testing.T) {
	t.Parallel()
	const pod = 7
	c, on := NewClaims(), new(int)
	ended := func() map[byte]int32 {
		counted := c.Counted(pod, on)
		out := map[byte]int32{}
		for i, id := range counted.Claims {
			out[id[0]] = counted.Ended[i]
		}
		return out
	}
	require.Empty(t, ended())
	first, second := grantsOf(1, 3), grantsOf(2, 1)
	c.Granted(pod, persistence.ClaimID{1}, first)
	c.Granted(pod, persistence.ClaimID{2}, second)
	require.Empty(t, ended(), "nothing has ended")
	for range 2 { // a record that is sent again says the same
		c.Ended(pod, first[0].Task, first[0].Epoch)
	}
	c.Ended(pod, first[1].Task, first[1].Epoch+1)
	c.Ended(pod+1, second[0].Task, second[0].Epoch)
	require.Equal(t, map[byte]int32{1: 1}, ended())
	c.Granted(pod, persistence.ClaimID{1}, first[1:]) // so does a claim
	c.Ended(pod, first[1].Task, first[1].Epoch)
	c.Ended(pod, second[0].Task, second[0].Epoch)
	require.Equal(t, map[byte]int32{1: 2, 2: 1}, ended())
}

func TestClaimsForgetWhatIsNotHeld(t *testing.T) {
	t.Parallel()
	const pod = 7
	c, on := NewClaims(), new(int)
	c.Counted(pod, on)
	for run := range byte(3) {
		c.Granted(pod, persistence.ClaimID{run}, grantsOf(run, 2))
	}
	counted := c.Counted(pod, on)
	c.Granted(pod, persistence.ClaimID{3}, grantsOf(3, 2))
	c.Keep(pod, counted, [][16]byte{{1}})
	require.Len(t, c.pods[pod].claims, 2, "the one of which something is held, and one that the renewal may not have seen")
	require.Len(t, c.pods[pod].open, 4)
	require.Equal(t, 2, c.known)

	c.Granted(pod+1, persistence.ClaimID{4}, grantsOf(4, 1))
	c.Forget(pod + 1)
	require.Equal(t, 2, c.known)
	c.Counted(pod, new(int))
	require.Empty(t, c.pods, "the server may be another one")
	require.Zero(t, c.known)
}

func TestClaimsAreBounded(t *testing.T) {
	t.Parallel()
	c := NewClaims()
	for i := range 2*ClaimsMax + 1 {
		c.Granted(7, persistence.ClaimID{byte(i), byte(i >> 8), byte(i >> 16)}, grantsOf(byte(i), 1))
	}
	require.LessOrEqual(t, len(c.pods[7].claims), ClaimsMax)
}
