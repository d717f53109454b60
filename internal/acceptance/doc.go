// Package acceptance holds the tests of the embedder's API as an embedder sees
// it: whole engines on the memory store in virtual time, and on a real PostgreSQL
// (files named *_postgres_test.go). A name begins with the requirement (R0 to R24),
// the promise (I1 to I15) or the bad input (B01 to B44) that the test shows;
// docs/guarantees.md lists them.
package acceptance
