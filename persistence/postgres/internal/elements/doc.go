// Package elements keeps how far steps of kind Map have come in PostgreSQL, and the items of their
// lists: what transactions of package postgres load and write of them.
//
// An element of a map is a dynamic task, and is stored as others are. Beside these a map has one
// row, which each end of an element changes under the lock of its run, and a row for each item,
// written once and removed when the run moves into history.
package elements
