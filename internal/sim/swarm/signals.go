package swarm

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// sending is a signal that the load sends to a run.
type sending struct {
	order      *order
	name, id   string
	after      time.Duration // when it is sent first
	rolledBack bool          // in a transaction that does not commit
	byKey      bool          // to the key of the run, which may not be triggered yet
	inTx       bool          // in a transaction of the embedder's; otherwise by a message to a pod
	doubled    bool          // to two pods at once
	acked      bool          // it is stored
	ackedAt    time.Time
	over       bool // the run ended before
}

// sendings draws the signals of an order from the seed and its name alone: one of each name,
// but for some that the run can do without, now and then a second one, and some in
// transactions that are rolled back.
func (s *seed) sendings(o *order) []*sending {
	var list []*sending
	for _, name := range o.shape.graph.Signals() {
		h := fnv.New64a()
		_, _ = fmt.Fprintf(h, "%d/%s/%s", s.number, o.name, name)
		drawn := h.Sum64() >> 8
		draw := func(n uint64) uint64 {
			value := drawn % n
			drawn /= n
			return value
		}
		count := 1 + int(draw(4)/3)
		if name != signalNeeded && draw(3) == 0 {
			count = 0
		}
		for i := range count {
			list = append(list, &sending{
				order: o, name: name, id: fmt.Sprintf("%s-%d", name, i), byKey: draw(2) == 0 && !o.keyless, inTx: draw(3) == 0, doubled: draw(3) == 0,
				after: o.after + time.Duration(draw(25))*time.Second - 2*time.Second,
			})
		}
		if draw(3) == 0 {
			list = append(list, &sending{order: o, name: name, id: name + "-never", after: o.after + 5*time.Second, inTx: true, rolledBack: true})
		}
	}
	return list
}

func (x *sending) payload() []byte { return fmt.Appendf(nil, "%q", x.order.name+"/"+x.id) }

// send sends a signal, again and again until it is stored or its run has ended.
func (c *client) send(x *sending) {
	if x.acked || x.over {
		return
	}
	c.seed.world.After(retryAfter, func() { c.send(x) })
	switch {
	case !x.byKey && !x.order.acked:
	case x.inTx:
		c.sendInTx(x)
	default:
		c.sendMessage(x)
	}
}

// sendMessage sends a signal by a message to a pod, or to two.
func (c *client) sendMessage(x *sending) {
	m := &messages.SendSignal{
		RequestId: x.order.name + "/" + x.id, Tenant: x.order.tenant, Name: x.name, Id: x.id, Payload: x.payload(),
		Workflow: x.order.shape.graph.Name, Key: x.order.name,
	}
	if !x.byKey {
		m.Workflow, m.Key, m.Run = "", "", x.order.run[:]
	}
	times := 1
	if x.doubled {
		times = 2
	}
	for range times {
		if p := c.seed.anyPod(); p != nil {
			c.seed.world.Send(p.Pod.PID(), m, c.pid)
		}
	}
}

// sendInTx sends a signal in a transaction of the embedder's.
func (c *client) sendInTx(x *sending) {
	s := c.seed
	signal := persistence.Signal{Run: x.order.run, Tenant: x.order.tenant, Name: x.name, ID: x.id, Payload: x.payload()}
	if x.byKey {
		signal.Run, signal.Key = workflow.RunID{}, persistence.RunKey{Tenant: x.order.tenant, Workflow: x.order.shape.graph.Name, Key: x.order.name}
	}
	var answer persistence.SignalAnswer
	err := s.world.Store().InTx(s.ctx, func(tx any) (err error) {
		answer, err = s.world.Store().SendSignalInTx(s.ctx, tx, signal)
		if err == nil && x.rolledBack {
			x.over, err = true, errPlanned
		}
		return err
	})
	if err != nil {
		return
	}
	switch answer.Result {
	case persistence.SignalStored, persistence.SignalRepeated:
		c.stored(x)
		s.world.Committed("send_signal_in_tx", persistence.Wake{Submitted: true})
	case persistence.SignalRunEnded:
		x.over = true
	case persistence.SignalNoRun:
		if x.order.acked {
			s.world.Fail("I19", "signal %s of %s found no run", x.id, x.order.name)
		}
	case persistence.SignalUnknown, persistence.SignalInboxFull, persistence.SignalBadRow, persistence.SignalBusy:
		s.world.Fail("I19", "signal %s of %s was refused: %v %v", x.id, x.order.name, answer.Result, answer.Err)
	}
}

// stored notes that a signal is durable.
func (c *client) stored(x *sending) {
	if x.acked {
		return
	}
	x.acked, x.ackedAt = true, c.seed.world.Now()
	tables := c.seed.world.Model().Snapshot()
	if run, ok := c.seed.world.Model().RunSnapshot(x.order.run); x.entryOf(&tables) == nil && ok && !run.Core.State.Terminal() {
		c.seed.world.Fail("I19", "signal %s of %s was acknowledged and is not stored", x.id, x.order.name)
	}
}

// hearSignal takes the answer to a signal.
func (c *client) hearSignal(request string, refused *messages.SignalRefused) {
	i := slices.IndexFunc(c.sent, func(x *sending) bool { return x.order.name+"/"+x.id == request })
	x := c.sent[i]
	switch code := refused.GetCode(); {
	case refused == nil:
		c.stored(x)
	case code == messages.SignalRefused_CODE_RUN_ENDED:
		x.over = true
	case code == messages.SignalRefused_CODE_UNAVAILABLE, code == messages.SignalRefused_CODE_OVERLOADED, code == messages.SignalRefused_CODE_STOPPING:
	case code == messages.SignalRefused_CODE_RUN_NOT_FOUND && x.byKey: // the run was not triggered yet
	default:
		c.seed.world.Fail("I19", "signal %s of %s was refused: %v %s", x.id, x.order.name, code, refused.GetRemedy())
	}
}

// entryOf returns a signal as it is in the inbox of its run; nil: it is not.
func (x *sending) entryOf(tables *snapshot.Tables) *snapshot.Entry {
	for i := range tables.Inbox {
		if e := &tables.Inbox[i]; e.Run == x.order.run && e.ID == x.id {
			return e
		}
	}
	return nil
}

// waited notes how the wait of a step for a signal ends, and judges its deadline: a signal
// that was stored before it is taken first.
func (o *oracle) waited(run *snapshot.Run, was *seen, e *lifecycle.Event) {
	s := o.seed
	switch {
	case e.Kind == lifecycle.EventWaiting:
		was.waits[e.Step] = e.WakeAt
		return
	case e.Kind == lifecycle.EventQueued && e.N == 1:
		s.saw(SawSignalEarly)
		return
	case e.Kind == lifecycle.EventQueued:
		s.saw(SawSignalWaited)
		return
	case e.By != "deadline":
		return
	}
	s.saw(SawDeadline)
	tables := s.world.Model().Snapshot()
	for _, x := range s.client.sent {
		if x.order.run != run.ID || !x.acked || x.name != run.Task(e.Step).Signal || !x.ackedAt.Before(was.waits[e.Step]) {
			continue
		}
		if entry := x.entryOf(&tables); entry != nil && entry.Step < 0 {
			s.world.Fail("I19", "%s step %d ended at its deadline, and signal %s was sent before", s.nameOf(run.ID), e.Step, x.id)
		}
	}
}

// signals judges at the end what became of every signal.
func (o *oracle) signals(tables *snapshot.Tables) {
	s := o.seed
	if len(tables.Signaled) > 0 {
		s.world.Fail("I19", "at the end signals of %d runs are not delivered", len(tables.Signaled))
	}
	for _, x := range s.client.sent {
		entry := x.entryOf(tables)
		switch {
		case x.rolledBack && entry != nil:
			s.world.Fail("I19", "signal %s of %s is there, and its transaction was rolled back", x.id, x.order.name)
		case x.acked && entry == nil:
			s.saw(SawSignalDropped) // its run has ended
		case entry != nil && string(entry.Payload) != string(x.payload()):
			s.world.Fail("I19", "signal %s of %s has another payload: %s", x.id, x.order.name, entry.Payload)
		}
	}
}
