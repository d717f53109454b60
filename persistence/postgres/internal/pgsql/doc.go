// Package pgsql holds the statements of the store and sends them.
//
// sql/README.md says which tables exist and which ten statements move work. A DB is what
// the rooms of the store have in common: the connections, the statements, and
// transactions that are made again after a conflict.
package pgsql
