package swarm

import (
	"context"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/workflow"
)

// success is an attempt that returned its output before its context ended.
type success struct {
	task  workflow.RunID
	step  string
	epoch int64
}

// attempt judges that an attempt begins.
func (o *oracle) attempt(p *sim.Pod, about *actors.TaskInfo) {
	s := o.seed
	if o.book.attempts[about.AttemptID] {
		s.world.Fail("I11", "attempt %s of %s/%s is executed twice", about.AttemptID, s.nameOf(about.Run), about.Step)
	}
	o.book.attempts[about.AttemptID] = true
	busy := 1
	for _, e := range s.executing {
		if e.pod == p && e.ctx.Err() == nil {
			busy++
		}
	}
	if busy > s.setting.slots {
		s.world.Fail("I12", "%s executes %d tasks in %d slots", p.Name, busy, s.setting.slots)
	}
}

// returned notes that an attempt returns its output.
func (o *oracle) returned(ctx context.Context, p *sim.Pod, about *actors.TaskInfo) {
	if ctx.Err() != nil {
		return
	}
	epoch, err := strconv.ParseInt(about.AttemptID[strings.LastIndexByte(about.AttemptID, '/')+1:], 10, 64)
	if err == nil {
		o.book.returned[p] = append(o.book.returned[p], success{task: about.Run, step: about.Step, epoch: epoch})
	}
}

// ended judges the end of a pod: a stop in good order loses nothing that was
// returned before it, if the database was there.
func (o *oracle) ended(p *sim.Pod) {
	o.book.gone[p.Number()] = true
	list := o.book.returned[p]
	delete(o.book.returned, p)
	if p.Pod == nil || p.Pod.Err() != nil || o.seed.troubled() {
		return
	}
	for _, r := range list {
		run, ok := o.seed.world.Model().RunSnapshot(r.task)
		if !ok {
			continue
		}
		recorded := false
		for i := range run.Events {
			e := &run.Events[i]
			if e.Step >= 0 && e.N == r.epoch+1 && nodeOf(&run, e.Step).Name == r.step {
				recorded = e.Kind != lifecycle.EventReleased && e.Kind != lifecycle.EventLost
			}
		}
		if !recorded {
			o.seed.world.Fail("I11", "%s stopped in good order and forgot the output of %s/%s", p.Name, o.seed.nameOf(r.task), r.step)
		}
	}
}

// troubled reports whether something has happened to calls of the database, or
// to the pods that make them.
func (s *seed) troubled() bool {
	for _, f := range s.world.Happened() {
		if strings.HasPrefix(string(f.Class), "store-") || f.Class == sim.ActorPanic || f.Class == sim.PodPause || f.Class == sim.PodSlow || pulseSkipped(f) {
			return true
		}
	}
	return false
}

// pulseSkipped reports whether a fault left out a renewal: two in a row, and the
// pod stops acting.
func pulseSkipped(f sim.Fault) bool {
	return f.Class == sim.Buggify && strings.HasSuffix(f.Place, "skip a pulse")
}
