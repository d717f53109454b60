package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is enqueued in the moment in which a hold ends waits for little of what is late, also
// where the frontier moves fast, however far other pods have moved it meanwhile.
func TestWhoComesInTheMomentInWhichAHoldEnds(t *testing.T) {
	t.Parallel()
	for _, moved := range []int64{0, 5, 20, 50} {
		t.Run(fmt.Sprint(moved), func(t *testing.T) {
			t.Parallel()
			l := newFairLine()
			l.enqueue("a", 3000, false)
			l.hold("a", true)
			l.enqueue("c", 3000, false)
			turn := func() {
				l.now = l.now.Add(3 * time.Millisecond)
				l.fill(1)
			}
			for range 1000 { // 200 blocks a second
				turn()
			}
			l.enqueue("b", 1, false)
			l.frontier += moved
			l.hold("a", false)
			l.view.forget()
			waited := 0
			for ; l.granted["b"] == 0; waited++ {
				turn()
			}
			t.Log("tasks of others that went first:", waited)
			require.LessOrEqual(t, waited, 100)
		})
	}
}
