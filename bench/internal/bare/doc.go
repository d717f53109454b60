// Package bare measures what the database can do without an engine: the product's
// tables, the columns and events that the product writes, batched statements, and
// a minimal loop with an intake, a claimer and two writers sharded by run. There
// are no actors, no leases, no fairness between tenants, no wakes but a NOTIFY where
// another process triggers, and no inputs or outputs of parents are read. Two limits
// share the loop:
//
//   - limit-sql: the leanest statements that do this durable work (sql/)
//   - limit-store: the product's own, through persistence/postgres.Store
package bare
