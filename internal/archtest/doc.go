// Package archtest holds the rules of the module's structure as tests: which
// room may import what (rooms_test.go), how long files and functions are,
// which words are not used, what may change at run time, where goroutines
// start, how much of protoactor-go is used, how many references between files
// run against the layers of their room, how often a page or a comment points at
// a thing instead of naming it, how long cells of tables are, that the walks of
// CONTRIBUTING.md name functions which exist, and that generated files are up to
// date.
//
// A rule is a table and a function from sources to findings. Each function is
// shown to find something in a bad source of a few lines, so that a rule that
// never fails is not mistaken for one that holds. To allow something new, edit
// the table: it is meant to be read as a diff.
package archtest
