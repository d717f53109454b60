package simtest

import (
	"github.com/troupe-dev/troupe"
)

// Requeue lets the run, which has failed, continue as another run, as
// troupe.DeadLetters.RequeueRun does, once a pod is up. A refusal fails the simulation.
func (r *Started[O]) Requeue() *Started[O] {
	next, err := r.requeue()
	if err != nil {
		r.sim.Fatalf("requeue: %v", err)
	}
	return next
}

func (w *Workflow[I, O]) requeue(run *troupe.Run[O]) (next *Started[O], err error) {
	s := w.sim
	s.calls.Add(1)
	defer s.calls.Add(-1)
	for range callsMost {
		s.visit("requeue", func(done func()) {
			defer done()
			engine, handle := w.choose()
			if engine == nil {
				return
			}
			status, failed := run.Status(s.context)
			if failed != nil {
				err = failed
				return
			}
			requeued, failed := engine.DeadLetters().RequeueRun(s.context, status.Tenant, run.ID(), troupe.RequeueOptions{})
			if failed != nil {
				err = failed
				return
			}
			s.committed = true // by no pod
			s.names[requeued.Run] = s.nameOf(run.ID()) + "+"
			next = w.started(handle.Get(status.Tenant, requeued.Run))
		})
		if next != nil || err != nil {
			return next, err
		}
		s.Advance(callPause)
	}
	return nil, errNoPod
}
