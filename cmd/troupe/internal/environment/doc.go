// Package environment reads the binary's configuration from variables named
// TROUPE_…: those in the table of troupe.Settings, and a few that are about
// the database and not about an engine. A variable with that prefix which
// nobody reads is an error, because it is a misspelled one.
package environment
