// Package testbed is where the commands measure: the machine, a PostgreSQL on
// it or elsewhere, a database on that which is theirs alone, and what both have
// used up so far.
package testbed
