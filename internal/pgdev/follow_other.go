//go:build !linux

package pgdev

import "syscall"

// followParent does nothing: only Linux can tie a child to its parent. The
// next Start on the folder ends a server that was left.
func followParent(*syscall.SysProcAttr) {}
