// Package features shows each feature of troupe in a file of its own, as a
// test that runs. Most run on an engine in memory with virtual time: a step
// may sleep for a year and the test takes a millisecond. Those about
// transactions need a PostgreSQL, which they find or start.
package features
