package swarm

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/sim"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// order is one run that the load wants, by its key.
type order struct {
	name     string // its key
	shape    *shape
	tenant   string
	after    time.Duration // when it is triggered first
	at       time.Duration // not before; 0: at once
	cancel   time.Duration // when it is canceled; 0: never
	doubled  bool          // triggered on two pods at once
	inTx     bool          // triggered in a transaction of the embedder's
	keyless  bool          // triggered without its name as a key at first, so that there may be two runs
	tried    bool
	queue    string
	run      workflow.RunID
	acked    bool
	canceled bool // the cancel was recorded
	told     bool // a pod said how it ended
	asked    *sim.Pod
	askedAt  time.Time
	input    []byte

	continues workflow.RunID // the run that this one continues; zero: none
	letter    int32          // from the dead letter of this step
}

// client is the embedder: an actor that repeats each trigger until a pod has said
// that it is durable, and cancels some of the runs.
type client struct {
	seed   *seed
	pid    *actors.PID
	orders map[string]*order
	sorted []*order // in the order of the load
	sent   []*sending
}

// orderLabel holds the name of an order that has no key.
const orderLabel = "order"

// retryAfter is how long the client waits for an answer.
const retryAfter = 3 * time.Second

func (c *client) begin(o *order) {
	c.seed.world.After(o.after, func() { c.trigger(o) })
	c.follow(o)
}

// follow looks after a run, and cancels it and sends it signals.
func (c *client) follow(o *order) {
	c.orders[o.name] = o
	c.sorted = append(c.sorted, o)
	if o.cancel > 0 {
		c.seed.world.After(o.cancel, func() { c.cancel(o) })
	}
	for _, x := range c.seed.sendings(o) {
		c.sent = append(c.sent, x)
		c.seed.world.After(max(x.after, 0), func() { c.send(x) })
	}
}

func (c *client) trigger(o *order) {
	if o.acked {
		return
	}
	c.seed.world.After(retryAfter, func() { c.trigger(o) })
	if o.inTx {
		c.triggerInTx(o)
		return
	}
	times := 1
	if o.doubled {
		times = 2
	}
	for range times {
		p := c.seed.anyPod()
		if p == nil {
			return
		}
		m := &messages.TriggerRun{
			RequestId: o.name, Workflow: o.shape.graph.Name, Tenant: o.tenant, Key: o.name, Input: o.input, Queue: o.queue,
		}
		if o.keyless && !o.tried {
			m.Key, m.Labels = "", map[string]string{orderLabel: o.name}
		}
		o.tried = true
		if o.at > 0 {
			m.At = c.seed.start.Add(o.at).UnixNano()
		}
		c.seed.world.Send(p.Pod.PID(), m, c.pid)
	}
}

// triggerInTx stores the run together with something of the embedder's.
func (c *client) triggerInTx(o *order) {
	s := c.seed
	id := workflow.NewRunID(s.world.Now(), [10]byte([]byte(fmt.Sprintf("%-10.10s", o.name))))
	var answer persistence.TriggerAnswer
	err := s.world.Store().InTx(s.ctx, func(tx any) (err error) {
		answer, err = s.world.Store().TriggerInTx(s.ctx, tx, persistence.Trigger{
			Run: id, Definition: o.shape.graph.Hash, Workflow: o.shape.graph.Name, Tenant: o.tenant, Key: o.name, Input: o.input, Queue: o.queue,
		})
		if err == nil && answer.Result != persistence.Triggered && answer.Result != persistence.Existing {
			err = errPlanned // for another time
		}
		return err
	})
	if err != nil {
		return
	}
	o.run, o.acked = answer.Run, true
	s.world.Committed("trigger_in_tx", persistence.Wake{Submitted: true})
}

func (c *client) cancel(o *order) {
	if o.canceled {
		return
	}
	c.seed.world.After(retryAfter, func() { c.cancel(o) })
	if p := c.seed.anyPod(); p != nil && o.acked {
		c.seed.world.Send(p.Pod.PID(), &messages.CancelRun{RequestId: o.name, Run: o.run[:], Tenant: o.tenant, Reason: "changed my mind"}, c.pid)
	}
}

// await asks a pod how runs end, and another one if that is gone. It is called
// every now and then.
func (c *client) await() {
	s := c.seed
	for _, o := range s.client.sorted {
		if !o.acked || o.told || o.asked != nil && o.asked.Alive() && o.asked.Disturbed().Before(o.askedAt) {
			continue
		}
		if o.asked = s.anyPod(); o.asked != nil {
			o.askedAt = s.world.Now()
			s.world.Send(o.asked.Pod.PID(), &messages.AwaitRun{RequestId: o.name, Run: o.run[:], Tenant: o.tenant}, c.pid)
		}
	}
	s.world.After(time.Second, c.await)
}

// ended takes the news of an end.
func (c *client) ended(m *messages.RunEnded) {
	o := c.orders[m.GetRequestId()]
	first := !o.told
	o.told = true
	row, ok := c.seed.world.Model().RunSnapshot(o.run) // which blocked rows are not left out of
	if !ok || row.Core.State.String() != m.GetState() {
		c.seed.world.Fail("I6", "%s is said to be %s; it is %v", o.name, m.GetState(), row.Core.State)
	}
	if first && row.Core.State == lifecycle.Failed {
		c.requeue(o)
	}
}

// hear takes an answer.
func (c *client) hear(message any) {
	switch m := message.(type) {
	case *messages.RunTriggered:
		o := c.orders[m.GetRequestId()]
		run := workflow.RunID(m.GetRun())
		if o.acked && o.run != run && !o.keyless {
			c.seed.world.Fail("I8", "%s was acknowledged as run %v and as run %v", o.name, o.run, run)
		}
		if _, ok := c.seed.world.Model().RunSnapshot(run); !ok {
			c.seed.world.Fail("I1", "%s was acknowledged as run %v and is not stored", o.name, run)
		}
		switch {
		case o.acked && o.keyless: // the first counts
			return
		case o.acked:
			c.seed.saw(SawDoubled)
		}
		o.run, o.acked = run, true
	case *messages.TriggerRefused:
		switch m.GetCode() { //nolint:exhaustive // the others are refusals for good
		case messages.TriggerRefused_CODE_UNAVAILABLE, messages.TriggerRefused_CODE_STOPPING, messages.TriggerRefused_CODE_OVERLOADED:
		case messages.TriggerRefused_CODE_UNKNOWN_WORKFLOW: // by a pod that does not register it
			if !c.seed.setting.partial {
				c.seed.world.Fail("I2", "%s is not known", m.GetRequestId())
			}
		default:
			c.seed.world.Fail("I2", "%s was refused: %v %s", m.GetRequestId(), m.GetCode(), m.GetRemedy())
		}
	case *messages.SignalStored:
		c.hearSignal(m.GetRequestId(), nil)
	case *messages.SignalRefused:
		c.hearSignal(m.GetRequestId(), m)
	case *messages.CancelRecorded:
		c.orders[m.GetRequestId()].canceled = true
	case *messages.CancelRefused:
	case *messages.RunEnded:
		c.ended(m)
	case *messages.AwaitRefused:
		if o := c.orders[m.GetRequestId()]; o.asked != nil {
			o.asked = nil // ask another one
		}
	}
}
