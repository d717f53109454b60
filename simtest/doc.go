// Package simtest runs workflows, as they are, on a simulated cluster: several
// pods with the real engine in them, in virtual time, while pods crash and
// freeze, the database is slow, loses connections and leaves it open whether a
// transaction was committed, and wakes are lost. Everything that happens follows
// from a seed, so that what went wrong once goes wrong again.
//
//	func TestOrdersAreChargedOnce(t *testing.T) {
//		simtest.Run(t, simtest.Options{}, func(s *simtest.Sim) {
//			bank := &bank{charges: map[string]int{}}
//			orders := simtest.Register(s, orders.Workflow(simtest.NewService(s, bank)))
//			s.Always("an order is charged once", func() bool { return bank.most() <= 1 })
//			orders.Start(order).Await()
//		})
//	}
//
// [Run] calls the function once per seed, each time in a bubble of
// testing/synctest: time.Sleep, context.WithTimeout and channels work as ever,
// and a day takes milliseconds. [CrashEverywhere] crashes every pod at every
// point instead. [New] is one cluster without faults, for plain tests.
//
// # What is real, and what is not
//
// The engine, its decisions, the workflows and the step functions are the real
// ones. The database is the memory store, which the tests of this module hold
// against PostgreSQL. Steps with troupe.InTx have no transaction here:
// give them a [Stub].
//
// A step function runs on a goroutine, and Go cannot kill one. When its pod
// crashes its context ends, its result is dropped, and it ends at its next call
// of a [Service], as if the process were gone; what it does to other memory
// until then still happens. So let step functions reach the outside world
// through Services.
//
// A test fails with the seed, the few faults that matter, the end of the
// history, and the command that repeats it; see the guide
// docs/testing-your-workflows.md.
package simtest
