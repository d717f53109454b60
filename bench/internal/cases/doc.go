// Package cases holds what is measured, one file per kind of question. A case
// runs in a process of its own with one peer, in a fresh database.
package cases
