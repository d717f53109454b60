// Package peer says what an engine has to offer to be measured: open in an
// empty database, take jobs one by one and in bulk, work, and tell what is not
// finished yet.
package peer
