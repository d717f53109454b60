// Package goworkflows measures github.com/cschleiden/go-workflows on its
// PostgreSQL backend: event-sourced workflows in the manner of Temporal, whose
// pollers claim one workflow task or activity per transaction.
package goworkflows
