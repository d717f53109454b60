// Package output is how the command prints: tables and fields for people, JSON
// for programs, and a screen that is drawn again and again. Whatever it prints,
// nothing in it is taken by a terminal for a command, and nothing is hidden.
package output
