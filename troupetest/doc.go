// Package troupetest tests workflows on a real PostgreSQL: your tables, your SQL and
// your transactions beside the engine's. For everything else package simtest is faster:
// it needs no database, and its time is virtual.
//
//	func TestAnOrderIsPaid(t *testing.T) {
//		pool := troupetest.Pool(t)
//		engine := troupetest.Engine(t, pool, troupe.Config{})
//		orders := troupetest.Register(t, engine, shop.Orders)
//		troupetest.Start(t, engine)
//
//		run, err := orders.RunNoWait(t.Context(), shop.Order{ID: "o-1"})
//		...
//		receipt := troupetest.Await(t, run)
//	}
//
// Each engine gets a schema of its own, so tests may run in parallel on one database;
// what a test has made is removed when it ends. A run that does not end as the test
// expects fails it with the steps and the history of the run.
package troupetest
