package troupe

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/program"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// startPod makes the registered workflows known to the database and starts the
// actors.
func (e *Engine) startPod(ctx context.Context, b *backend) (*actors.Pod, error) {
	queues := e.servedQueues()
	known := queues
	for queue := range e.config.QueueSlots {
		known = append(known, queue)
	}
	numbers, err := b.store.RegisterDefinitions(ctx, e.graphs(), known)
	if err != nil {
		return nil, fmt.Errorf("register definitions: %w", err)
	}
	functions := map[int32]actors.StepFunction{}
	for i, p := range e.order {
		if !e.config.ClientOnly { // whose handlers must not look alive
			number(p, numbers[i], functions)
		}
	}
	launch := b.launch
	if launch == nil {
		launch = actors.Start
	}
	return launch(ctx, actors.Options{
		System: e.config.System, Ports: b.ports, Functions: functions, Evaluate: e.evaluate,
		Config: e.podConfig(queues), Log: e.config.Logger, Metrics: e.config.Metrics,
		Joined: b.pod.Store,
	})
}

// number enters the functions of a program under the numbers of their
// handlers, which are in the order of the graph's nodes; then come the failure handler and the
// older versions of a machine.
func number(p *program.Bound, numbers []int32, functions map[int32]actors.StepFunction) {
	type handler struct {
		step        string
		fingerprint workflow.Hash
	}
	byHandler, first := map[handler]int32{}, map[string]bool{}
	nodes := len(p.Graph.Nodes)
	for i, number := range numbers {
		switch {
		case i < nodes:
			n := &p.Graph.Nodes[i]
			byHandler[handler{n.Name, n.Fingerprint}] = number
			first[n.Name] = n.Pending == 0 && !n.Traits.Has(workflow.TraitSpawned)
		case p.Graph.OnFailure != nil:
			byHandler[handler{p.Graph.OnFailure.Name, p.Graph.OnFailure.Fingerprint}] = number
		default: // of an older version of a machine
			byHandler[handler{p.Graph.Nodes[0].Name, p.Graph.Older[i-nodes]}] = number
		}
	}
	for _, f := range p.Functions {
		f.First = first[f.Step]
		functions[byHandler[handler{f.Step, f.Fingerprint}]] = f
	}
}

// servedQueues returns the queues that share the pod's slots: the default one
// and those that registered steps name.
func (e *Engine) servedQueues() []string {
	queues := []string{actors.DefaultQueue}
	seen := map[string]bool{actors.DefaultQueue: true}
	for _, p := range e.order {
		for _, f := range p.Functions {
			if f.Queue != "" && !seen[f.Queue] {
				seen[f.Queue] = true
				queues = append(queues, f.Queue)
			}
		}
	}
	return queues
}

func (e *Engine) podConfig(queues []string) actors.Config {
	c := e.config
	return actors.Config{
		ClientOnly: c.ClientOnly, Slots: c.Slots, QueueSlots: c.QueueSlots, Queues: queues, ClaimBatch: c.ClaimBatch, TenantLimit: c.TenantLimit,
		Pulse: c.Pulse, LeaseTTL: c.Lease, StopGrace: c.StopGrace, CancelGrace: c.CancelGrace,
		Sweep: c.Sweep, SweepDegraded: c.SweepDegraded,
		LeaderPing: c.LeaderPing, LeaderSilence: c.LeaderSilence, LeaderTry: c.LeaderTry,
		AttemptTimeout: c.AttemptTimeout, InTxTimeout: c.InTxTimeout, MaxLost: c.MaxLost, Retention: c.Retention.classes(),
		DeadLetterRetention: c.DeadLetterRetention,
		PayloadLimit:        c.PayloadLimit, PayloadMemory: c.PayloadMemory, IntakePending: c.IntakePending, DefaultTenant: c.DefaultTenant, PodName: c.PodName,
	}
}

// evaluate admits an input that came as a message.
func (e *Engine) evaluate(trigger *persistence.Trigger) error {
	p := e.programs[trigger.Workflow] // nothing is registered after Start
	if p == nil {
		return actors.ErrUnknownWorkflow
	}
	return p.AdmitTrigger(trigger)
}

// triggerError turns a refusal into the embedder's error.
func triggerError(refused *actors.Refusal) error {
	return &TriggerError{
		Code: RefusalCode(refused.Code), Field: refused.Field, Remedy: refused.Remedy,
		Run: refused.Answer.Run, cause: refused.Answer.Err,
	}
}

// answerError is the same for an answer of the store.
func answerError(t *persistence.Trigger, answer persistence.TriggerAnswer) error {
	if refused := actors.AnswerRefusal(t, answer); refused != nil {
		return triggerError(refused)
	}
	return nil
}
