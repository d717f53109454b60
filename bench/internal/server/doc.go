// Package server starts the PostgreSQL that is measured on, makes a fresh
// database for every measurement, and reads what was used up on it.
package server
