package pgdev

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	temporaryPrefix = "troupe-pg-"
	lockName        = "lock"
	privateMode     = 0o600
)

// folder is a directory that this process owns: it holds the lock in it until
// close.
type folder struct {
	path      string
	temporary bool
	lock      *os.File
	owner     account
}

func (f *folder) data() string     { return filepath.Join(f.path, "data") }
func (f *folder) log() string      { return filepath.Join(f.path, "server.log") }
func (f *folder) password() string { return filepath.Join(f.path, "password") }

// socketDir is where the server puts its Unix socket; empty means that the
// path would be longer than a socket's may be.
func (f *folder) socketDir() string {
	if len(f.path) > socketPathMax {
		return ""
	}
	return f.path
}

// CacheDir is the folder for what outlives a process: the demo's data and
// downloaded binaries. It is troupe's part of the user's cache folder; for
// root, whose cache folder no other user can enter, a system one.
func CacheDir() string {
	if os.Geteuid() == 0 {
		return "/var/cache/troupe"
	}
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "troupe")
	}
	return filepath.Join(os.TempDir(), "troupe-"+strconv.Itoa(os.Geteuid()))
}

// openFolder takes the directory, or a new temporary one, into possession and
// ends a server that a dead owner left running in it.
func openFolder(ctx context.Context, dir string, volatile bool, owner account) (*folder, error) {
	if dir == "" {
		sweepTemporary(ctx, owner)
		return openTemporary(ctx, temporaryParent(volatile, owner), owner)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the data folder: %w", err)
	}
	if err := os.MkdirAll(abs, 0o755); err != nil {
		return nil, fmt.Errorf("create the data folder: %w", err)
	}
	if entries, err := os.ReadDir(abs); err != nil || len(entries) > 0 {
		if _, lockErr := os.Stat(filepath.Join(abs, lockName)); lockErr != nil {
			return nil, errors.Join(fmt.Errorf("%s is neither empty nor a data folder of troupe: choose another", abs), err)
		}
	}
	return takeFolder(ctx, abs, owner)
}

// temporaryParent is where a temporary folder is made. What a power failure may lose
// is kept in memory where there is room: a database is several hundred files, and
// making them takes a disk's file system longer than all else that most tests do.
func temporaryParent(volatile bool, owner account) string {
	switch parent := os.TempDir(); {
	case volatile && roomInMemory() && owner.enter(sharedMemory) == nil:
		return sharedMemory
	case owner.enter(parent) == nil:
		return parent
	}
	return "/tmp"
}

func openTemporary(ctx context.Context, parent string, owner account) (*folder, error) {
	for {
		path, err := os.MkdirTemp(parent, temporaryPrefix)
		if err != nil {
			return nil, fmt.Errorf("create the data folder: %w", err)
		}
		f, err := takeFolder(ctx, path, owner)
		if errors.Is(err, errFolderTaken) || errors.Is(err, os.ErrNotExist) {
			continue // another process's sweep saw it before the lock was ours, and removes it
		}
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
		f.temporary = true
		return f, nil
	}
}

var errFolderTaken = errors.New("used by another process")

func takeFolder(ctx context.Context, path string, owner account) (*folder, error) {
	if err := owner.own(path); err != nil {
		return nil, err
	}
	if err := owner.enter(path); err != nil {
		return nil, err
	}
	lock, err := lockFile(filepath.Join(path, lockName), os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("lock the data folder %s: %w", path, err)
	}
	if !stands(lock) {
		return nil, errors.Join(errFolderTaken, lock.Close())
	}
	f := &folder{path: path, lock: lock, owner: owner}
	if err := f.endLeftover(ctx); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return f, nil
}

// stands reports whether a locked file is still in its folder: a sweep that
// locked it before may have removed both.
func stands(lock *os.File) bool {
	held, err := lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(lock.Name())
	return err == nil && os.SameFile(held, there)
}

// sweepTemporary removes the temporary folders of dead processes. A folder
// that cannot be removed is left to its owner, or to the next sweep.
func sweepTemporary(ctx context.Context, owner account) {
	paths, _ := filepath.Glob(filepath.Join(os.TempDir(), temporaryPrefix+"*")) // the pattern is constant
	if sharedMemory != "" {
		inMemory, _ := filepath.Glob(filepath.Join(sharedMemory, temporaryPrefix+"*"))
		paths = append(paths, inMemory...)
	}
	for _, path := range paths {
		if !owner.owns(path) {
			continue
		}
		lock, err := lockFile(filepath.Join(path, lockName), 0)
		if err != nil {
			continue
		}
		f := &folder{path: path, temporary: true, lock: lock, owner: owner}
		if f.endLeftover(ctx) == nil {
			_ = f.close(ctx) // the next sweep tries again
		}
	}
}

// endLeftover ends the server that runs in the folder although its starter is
// dead, which the lock shows, and removes its pid file.
func (f *folder) endLeftover(ctx context.Context) error {
	pidFile := filepath.Join(f.data(), "postmaster.pid")
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return nil //nolint:nilerr // no pid file, nothing left running
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 {
		return os.Remove(pidFile)
	}
	deadline := time.Now().Add(stopTimeout)
	for commandOf(ctx, pid, f.path) {
		if time.Now().After(deadline) {
			return fmt.Errorf("a server left in %s (pid %d) does not stop", f.path, pid)
		}
		if err := quit(pid); err != nil {
			return fmt.Errorf("stop the server left in %s: %w", f.path, err)
		}
		if err := pause(ctx, 5*pollInterval); err != nil {
			return err
		}
	}
	if err := os.Remove(pidFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove a dead server's pid file: %w", err)
	}
	return nil
}

// secret returns the superuser's password, made when the folder is new.
func (f *folder) secret() (string, error) {
	text, err := os.ReadFile(f.password())
	if err == nil && len(text) > 0 {
		return string(text), nil
	}
	password := rand.Text()
	if err := os.WriteFile(f.password(), []byte(password), privateMode); err != nil {
		return "", fmt.Errorf("keep the password: %w", err)
	}
	return password, f.owner.own(f.password())
}

// close gives the folder up, and removes it if it is temporary. Processes of a
// killed server may write for another moment, so removing is tried again.
func (f *folder) close(ctx context.Context) error {
	var err error
	if f.temporary {
		for range launchMax {
			if err = os.RemoveAll(f.path); err == nil || pause(ctx, pollInterval) != nil {
				break
			}
		}
	}
	return errors.Join(err, f.lock.Close())
}

// pause waits for d; it returns the context's cause if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
