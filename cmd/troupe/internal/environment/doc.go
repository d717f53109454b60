// Package environment reads the binary's configuration from variables named
// TROUPE_…: those in the table of troupe.Settings, and a few that are about
// the database and not about an engine. An unknown variable with
// that prefix is an error, because it is a misspelled one.
package environment
