package lifecycle

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorder is a test that may fail.
type recorder struct {
	testing.TB

	text string
}

func (r *recorder) Errorf(format string, args ...any) { r.text = fmt.Sprintf(format, args...) }
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	r.FailNow()
}
func (r *recorder) FailNow() { runtime.Goexit() }

// TestMistakesOfTheInboxAreFound: what a store does wrong with the entries of machines is found.
func TestMistakesOfTheInboxAreFound(t *testing.T) {
	t.Parallel()
	ended := func(h *machineHistory, change func(t *Task)) {
		for i := range h.tasks[1:] {
			if t := &h.tasks[i+1]; t.Entry > h.machine.taken && h.tasks[0].State == Queued {
				change(t)
				return
			}
		}
	}
	for name, spoil := range map[string]func(h *machineHistory){
		"an end is no entry":           func(h *machineHistory) { ended(h, func(t *Task) { t.Entry = 0 }) },
		"an end is taken back":         func(h *machineHistory) { ended(h, func(t *Task) { t.Entry = -t.Entry }) },
		"an end has another number":    func(h *machineHistory) { ended(h, func(t *Task) { t.Entry++ }) },
		"the machine hears of cancels": func(h *machineHistory) { ended(h, func(t *Task) { t.State = Canceled }) },
		"a signal is lost":             func(h *machineHistory) { h.inbox = h.inbox[:max(len(h.inbox), 1)-1] },
		"entries are handled twice":    func(h *machineHistory) { h.machine.taken = min(h.machine.taken, 3) },
		"the machine sleeps": func(h *machineHistory) {
			if m := &h.tasks[0]; m.State == Queued && h.machine.taken > 0 {
				m.State = Waiting
			}
		},
		"a timer fires after its cancel": func(h *machineHistory) {
			for i := range h.tasks[1:] {
				if t := &h.tasks[i+1]; t.Entry < 0 && t.State == Completed {
					t.Entry = -t.Entry
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(50) {
				r, done := &recorder{TB: t}, make(chan struct{})
				go func() {
					defer close(done)
					h := newMachineHistory(r, rand.New(rand.NewPCG(seed, 2)))
					h.spoil = spoil
					h.drive()
				}()
				<-done
				if r.text != "" {
					return
				}
			}
			require.Fail(t, "no seed finds it")
		})
	}
}
