// Package machines keeps how far state machines have come in PostgreSQL: what transactions of
// package postgres load and write of them.
//
// A machine is a run whose first task is executed again for the entries of its inbox. What it has
// started are dynamic tasks, stored as others are, and their ends are entries by a number in their
// rows. Beside these a machine has one row, which each activation changes under the lock of its
// run, and an input for each activity and child run, written once.
package machines
