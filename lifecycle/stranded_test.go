package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a store holds of a run may have been changed by others: tasks of it are gone, or
// wait for what has ended. A cancel ends it, and so does one that comes again.
func TestACancelEndsWhatNoTaskWillGoOnWith(t *testing.T) {
	t.Parallel()
	waits := Task{Step: 1, State: Pending, Pending: 1, Epoch: 1}
	for name, c := range map[string]struct {
		tasks     []Task
		canceling bool
		ends      bool
	}{
		"nothing is open":               {nil, false, true},
		"canceled before":               {nil, true, true},
		"one waits":                     {[]Task{waits}, false, true},
		"one waits, canceled before":    {[]Task{waits}, true, true},
		"one is executed":               {[]Task{waits, {Step: 2, State: Running, Epoch: 2, Pod: 7}}, false, false},
		"it is executed after a cancel": {[]Task{waits, {Step: 2, State: Running, Epoch: 2, Pod: 7}}, true, false},
	} {
		run := Run{State: Running, Steps: 3, Remaining: 1, Events: 2, Canceling: c.canceling, Slow: c.canceling}
		d := Decide(run, Rows{Tasks: c.tasks, Complete: true}, []Fact{CancelRequested{Grace: time.Second}}, time.Unix(0, 0))
		require.Equal(t, c.ends, d.Ended, name)
		if c.ends {
			require.Equal(t, Canceled, d.Run.State, name)
			require.Zero(t, d.Run.Remaining, name)
			require.Len(t, d.Tasks, len(c.tasks), name)
		}
		want := Moved
		if c.canceling {
			want = AlreadyYours
		}
		require.Equal(t, []Answer{want}, d.Answers, name)
	}
}
