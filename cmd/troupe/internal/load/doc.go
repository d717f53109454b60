// Package load puts a load of one's own choice on the engine and reports what
// it did: throughput, latencies, failures, and the cost for the database and
// the pods.
//
// Each pod is a process of its own, a child of the one that was called. Pods
// trigger the runs and execute them; the parent starts them, passes on what
// they tell each other, shows the progress and adds up the report. They talk in
// lines of JSON (conversation.go). All share the clock of one machine, so that
// a latency may begin in one process and end in another.
//
// A latency begins when the run was to be triggered. With a rate that is its
// place in the schedule, whether or not the one before it was on time: a stall
// is seen in all runs that it delays. A run has ended once the database shows
// it as ended to others (endings.go). Nothing is kept per run once it has
// ended: latencies go into histograms of a fixed size.
package load
