// Package troupe runs durable workflows inside a Go program, on PostgreSQL and
// nothing else.
//
// A workflow is a graph of plain functions. Each takes the run's input and the
// outputs of its parents, and the references that wire them are typed: a wrong
// parent does not compile.
//
//	func validate(ctx context.Context, o Order) (Verdict, error)
//	func charge(ctx context.Context, o Order, v Verdict) (Payment, error)
//
//	var Orders = troupe.Define("orders", func(b *troupe.Builder[Order]) troupe.StepRef[Payment] {
//		verdict := troupe.Step0(b, "validate", validate)
//		return troupe.Step1(b, "charge", charge, verdict, troupe.Retry{Attempts: 5})
//	})
//
// An engine executes it. Every transition is one transaction, so a run that
// was triggered reaches its end whatever crashes in between; several processes
// on the same database share the work. The tables are made by
// migrations.Migrate, or by the command troupe migrate up.
//
//	_, err := migrations.Migrate(ctx, pool, "troupe")
//	engine, err := troupe.New(pool, troupe.Config{})
//	orders, err := troupe.Register(engine, Orders)
//	err = engine.Start(ctx)
//	payment, err := orders.Run(ctx, Order{...}, troupe.Tenant("acme"))
//
// # Declaring a workflow
//
// [Define] calls a function that declares the steps on a [Builder]. [Step0] to
// [Step5] declare a step by the number of its parents, [StepN] one with any
// number, [Sleep] and [SleepUntil] a durable wait that needs no process,
// [WaitSignal] one for a [Signal] that you send, [Child] one for the run of
// another workflow, whose output the step has, and [Map] one that executes a function
// for each item of a list. The ref that a declaration
// returns is what later ones take as a parent:
//
//	declared parent   parameter    the step runs if the parent
//	ref               T            completed
//	Maybe(ref)        Opt[T]       completed or was skipped
//	Settled(ref)      Outcome[T]   ended in any way
//	After(ref)        none         as above; it takes all three, and sleeps
//
// [If], [Switch] and [SkipIf] look at the output of one step and decide which
// others run. A step that does not run is skipped, and so is what depends on
// it, up to a Maybe or Settled. A decision is made once, by the process that
// executed the step it looks at, and stored with that step's completion.
//
// Mistakes that are not type errors never panic: [Workflow.Validate] and
// [Register] report all of them at once.
//
// # Writing a step
//
// A step function may be executed more than once: its process can die before
// its result is recorded. Its effects are safe if they happen under the
// idempotency key of [Task], or in the transaction of [Tx] in a step with
// [InTx]. Its context ends when the attempt is over for any reason, with a
// cause that says which. [Terminal] marks an error that no retry will cure.
//
// # Changing a workflow
//
// A run keeps the graph that it was triggered with, its sleeps and queues
// included; a new one gets the graph of the pod that triggers it. A pod executes
// a task of either if it has registered a step of that name with the same
// parents, decisions and Go types. Types are compared by name: their fields may
// change as far as the codec reads what is stored. What a function does, its
// [Retry], [AttemptTimeout] and [HeartbeatTimeout] may change freely.
//
// A task that no living pod can execute waits, and StepStatus.Waiting says so.
// Until such runs have ended keep a pod of the old version, or give the new
// workflow another name and register both.
package troupe
