// Package statemachine declares workflows as deterministic state machines that events drive: the
// second way to declare a workflow, beside the steps of [troupe.Define].
//
// A machine has a state of any type, and handlers: what it does with its input, with the result or
// the failure of an activity, when a timer fires, a signal comes or a child run ends. A handler
// changes the state and says what to start and to cancel. It has no context and waits for nothing.
// The state is stored after each activation, together with all that the handlers decided, in one
// transaction. A machine that waits is a row in the database: it has no goroutine and no slot. After
// a crash it continues from its state; nothing is replayed, and nothing grows with its age.
//
//	var Paid = troupe.NewSignal[Payment]("paid")
//
//	order := statemachine.Define("order", func(m *statemachine.Builder[Order, State, Receipt]) {
//		charge := statemachine.Activity(m, "charge", Charge)
//		window := m.Timer("window")
//		m.OnStart(func(a *statemachine.Activation[State, Receipt], in Order) {
//			a.State = State{Order: in}
//			window.Start(a, 30*time.Minute)
//		})
//		m.OnTimer(window, func(a *statemachine.Activation[State, Receipt]) {
//			charge.Start(a, a.State.Order)
//		})
//		statemachine.OnCompleted(m, charge, func(a *statemachine.Activation[State, Receipt], out Receipt) {
//			a.Complete(out)
//		})
//	})
//	orders, err := troupe.Register(engine, order)
//
// Runs of a machine are runs as all others: [troupe.Handle] triggers them, with or without a
// transaction, signals reach them, they may be child runs, and the command line, dead letters, events
// and metrics treat them alike. [Machine.State] reads the state, and [Machine.Test] tests a machine
// without an engine. docs/state-machines.md is the guide, and docs/models.md says when to use which
// of the two.
package statemachine
