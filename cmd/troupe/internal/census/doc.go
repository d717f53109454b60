// Package census counts what is in a tree of Go source: packages, files,
// lines, declarations, comments, tests. It is the work that the demo's
// workflow does, as plain functions, and the straight loop that its result is
// checked against.
package census
