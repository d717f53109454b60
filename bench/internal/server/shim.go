package server

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed shim/slow_flush.c
var shimSource []byte

// preload is the variable by which the dynamic linker finds the shim.
const preload = "LD_PRELOAD"

// ErrNoCompiler is returned by StartSlow where no C compiler is installed.
var ErrNoCompiler = errors.New("no C compiler (cc) is installed, so the disk cannot be slowed down")

// shim is a library that a server is started with.
type shim struct{ folder, library string }

func makeShim(ctx context.Context) (*shim, error) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		return nil, ErrNoCompiler
	}
	folder, err := os.MkdirTemp("", "troupe-bench-")
	if err != nil {
		return nil, err
	}
	s := &shim{folder: folder, library: filepath.Join(folder, "slow_flush.so")}
	source := filepath.Join(folder, "slow_flush.c")
	// The server may run as another user, who has to read the library.
	if err := errors.Join(os.Chmod(folder, 0o755), os.WriteFile(source, shimSource, 0o600)); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	out, err := exec.CommandContext(ctx, compiler, "-shared", "-fPIC", "-O2", "-o", s.library, source, "-ldl").CombinedOutput()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("compile the shim: %w: %s", err, out), s.remove())
	}
	return s, nil
}

func (s *shim) remove() error { return os.RemoveAll(s.folder) }
