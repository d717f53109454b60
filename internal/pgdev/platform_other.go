//go:build !unix

package pgdev

import (
	"context"
	"errors"
	"os"
	"syscall"
)

const (
	signalFast      = syscall.SIGKILL
	signalImmediate = syscall.SIGKILL
)

var errNoFolders = errors.New("a private PostgreSQL needs a Unix system here: name a server in TROUPE_DATABASE_URL")

func lockFile(string, int) (*os.File, error) { return nil, errNoFolders }

func (a account) owns(string) bool { return true }

func (a account) attributes() *syscall.SysProcAttr { return nil }

func commandOf(context.Context, int, string) bool { return false }

func quit(int) error { return nil }
