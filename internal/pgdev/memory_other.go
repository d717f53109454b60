//go:build !linux

package pgdev

const sharedMemory = ""

// roomInMemory reports whether files can be kept in memory.
func roomInMemory() bool { return false }
