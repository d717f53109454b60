// Package contest plans a comparison and carries it out: which case with which peer in
// which setting, in turns, each in a fresh database and a process of its own.
package contest
