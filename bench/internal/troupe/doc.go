// Package troupe measures troupe through its public API, as an embedder uses
// it: New, Register, Start, RunNoWait and RunMany.
package troupe
