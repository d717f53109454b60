package pgdev

import "syscall"

const (
	sharedMemory = "/dev/shm"
	// memoryMin is what a file system in memory must have free: a server of tests
	// takes a few hundred megabytes.
	memoryMin = 2 << 30

	tmpfsMagic = 0x01021994 // of statfs(2)
)

// roomInMemory reports whether files can be kept in memory.
func roomInMemory() bool {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(sharedMemory, &fs); err != nil || fs.Type != tmpfsMagic {
		return false
	}
	return fs.Bavail*uint64(fs.Bsize) >= memoryMin
}
