// Package registry knows definitions, queues and tenants by the numbers that tables use.
// It registers what a pod executes, and again after the database has lost it.
package registry
