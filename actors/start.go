package actors

import (
	"context"
	"fmt"
	"log/slog"
	goruntime "runtime"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/internal/clock"
)

// Options is all that a pod needs. Ports and Functions are required.
type Options struct {
	System    *System // nil: one of its own
	Ports     Ports
	Functions map[int32]StepFunction // by the number of their handler
	Evaluate  Evaluate               // nil: TriggerRun messages are refused
	Config    Config
	Clock     clock.Clock // nil: the system's
	Log       *slog.Logger
	Metrics   Metrics // nil: none

	// Joined is called with the pod's number, before anything else happens
	// under it; again when the pod had to join again. It must not block.
	Joined func(number int64)

	// For simulations; nil: the defaults.
	Executor Executor
	Mailbox  MailboxProducer
	Random   Random
	// Arrive delivers messages from goroutines that are not actors.
	Arrive func(to *PID, message any)
	// Buggify is asked at places where the engine may as well make a rare
	// choice: a batch of one, a beat left out.
	Buggify func(place string) bool
	// Lifetime ends the contexts of all attempts when it ends.
	Lifetime context.Context //nolint:containedctx // of the pod
}

// Start joins the cluster and starts the actors of a pod. It returns once they
// run. ctx bounds the joining.
func Start(ctx context.Context, options Options) (*Pod, error) {
	p, err := Launch(ctx, options)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.rt.status.up:
		return p, nil
	case <-p.Done():
		p.rt.executor.Close()
		return nil, fmt.Errorf("start the pod's actors: %w", p.Err())
	case <-ctx.Done():
		p.Kill()
		return nil, fmt.Errorf("start the pod's actors: %w", context.Cause(ctx))
	}
}

// Launch is Start that does not wait until the actors run.
func Launch(ctx context.Context, options Options) (*Pod, error) {
	rt := newRuntime(options)
	rt.gauges = newGauges(options.Ports.Store)
	asked := rt.now()
	number, now, err := options.Ports.Store.JoinPod(ctx, rt.podInfo())
	if err != nil {
		return nil, fmt.Errorf("join the cluster: %w", err)
	}
	local := rt.now()
	rt.vitals.with(func(v *vitals.Vitals) {
		v.FoundBack(local)
		v.Clock.Observe(now, asked, local)
	})
	rt.status.with(func(f *podFacts) { f.sawDatabaseTime(now, local) })
	rt.status.joined(number)
	rt.status.with(func(f *podFacts) { f.led = local })
	root := fmt.Sprintf("troupe-%d-%d", number, rt.random.Uint64()%1e6)
	rt.addresses = newAddresses(rt.system, root)
	if _, err := rt.system.Root.SpawnNamed(rt.props(podName, newPod(rt, &options.Ports, number)), root); err != nil {
		return nil, fmt.Errorf("start the pod's actor: %w", err)
	}
	rt.recorder.set(MetricBuildInfo, 1, buildVersion(), goruntime.Version()) //nolint:contextcheck // the recorder logs what is no call's
	return &Pod{rt: rt}, nil
}

func newRuntime(o Options) *runtime {
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.System == nil {
		o.System = newSystem(o.Log)
	}
	if o.Mailbox == nil {
		o.Mailbox = newMailbox
	}
	if o.Random == nil {
		o.Random = systemRandom{}
	}
	config := o.Config.withDefaults()
	rt := &runtime{
		system: o.System, clock: o.Clock, executor: o.Executor, mailbox: o.Mailbox, random: o.Random,
		numbers: &sequence{}, log: o.Log, recorder: newRecorder(o.Metrics, o.Log, o.Clock.Now), config: config,
		functions: map[int32]*StepFunction{}, evaluate: o.Evaluate, status: newPodStatus(config.IntakePending, o.Joined), inflight: newInflight(),
	}
	rt.vitals.value = vitals.New(rt.now(), config.LeaseTTL/clockDriftShare)
	rt.watchdog = vitals.NewWatchdog(rt.now(), watchedActors()...)
	for number, f := range o.Functions {
		f.succeeded, f.duration = []string{f.Workflow, f.Step, outcomeSucceeded, ""}, []string{f.Workflow, f.Step}
		rt.functions[number] = &f
	}
	rt.numberHandlers()
	if rt.arrive = o.Arrive; rt.arrive == nil {
		rt.arrive = rt.send
	}
	if rt.arriveLater = o.Arrive; rt.arriveLater == nil {
		rt.arriveLater = func(to *PID, message any) { rt.executor.Yield(to, message) }
	}
	rt.payloads = newPayloads(int64(config.PayloadMemory), func(to *PID) { rt.arriveLater(to, &payloadsGranted{}) })
	if rt.buggify = o.Buggify; rt.buggify == nil {
		rt.buggify = func(string) bool { return false }
	}
	if rt.lifetime = o.Lifetime; rt.lifetime == nil {
		rt.lifetime = context.Background()
	}
	if rt.executor == nil {
		rt.executor = newExecutor(o.Clock, rt.send)
	}
	return rt
}
