// Package orders is a pod of the order-processing example (examples/orders) as
// a service: an engine, an HTTP port for orders and probes, and a stop in good
// order. deploy/kubernetes runs it.
package orders
