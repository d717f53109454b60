//go:build unix

package pgdev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

const (
	signalFast      = syscall.SIGINT  // PostgreSQL's fast stop: clients are cut, data is written
	signalImmediate = syscall.SIGQUIT // its immediate stop: recovery at the next start
)

// lockFile opens the file with the flag and locks it; errFolderTaken means that
// another process has it. The lock ends with the file, or with the process.
func lockFile(path string, flag int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|flag, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errFolderTaken
		}
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// owns reports whether the path belongs to the account or, where the account
// is the caller, to the caller.
func (a account) owns(path string) bool {
	status, err := os.Stat(path)
	if err != nil {
		return false
	}
	system, ok := status.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	uid := os.Geteuid()
	if a.switched {
		uid = a.uid
	}
	return int(system.Uid) == uid
}

// attributes detaches the child from the terminal's signals and gives it the
// account.
func (a account) attributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setsid: true}
	if a.switched {
		attributes.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attributes
}

// commandOf reports whether pid is alive and its command line names the path:
// a pid alone may have been given to another process since.
func commandOf(ctx context.Context, pid int, path string) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
		return strings.Contains(string(line), path)
	}
	line, err := exec.CommandContext(ctx, "ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(line), path)
}

// quit stops a server at once; one that is gone already is no error.
func quit(pid int) error {
	if err := syscall.Kill(pid, signalImmediate); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
