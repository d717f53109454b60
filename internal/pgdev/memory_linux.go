package pgdev

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	sharedMemory = "/dev/shm"
	// memoryMin is what a file system in memory must have free: a server of tests
	// takes a few hundred megabytes.
	memoryMin = 2 << 30

	// groupMin is what a container must be allowed to use, if that is bounded: what
	// is kept in memory counts.
	groupMin   = 4 * memoryMin
	groupLimit = "/sys/fs/cgroup/memory.max"

	tmpfsMagic = 0x01021994 // of statfs(2)
)

// roomInMemory reports whether files can be kept in memory.
func roomInMemory() bool {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(sharedMemory, &fs); err != nil || fs.Type != tmpfsMagic {
		return false
	}
	text, _ := os.ReadFile(groupLimit) // without the file no limit is known
	if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit < groupMin {
		return false
	}
	return fs.Bavail*uint64(fs.Bsize) >= memoryMin
}
