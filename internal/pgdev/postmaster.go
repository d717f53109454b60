package pgdev

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// postmaster is a server process that runs, or has run.
type postmaster struct {
	command *exec.Cmd
	ended   chan struct{} // closed once the process has been waited for
}

// spawn starts the command on a thread that lives exactly as long as the
// child: the kernel ties the child to that thread, not to this process, and
// the runtime would otherwise be free to end it.
func spawn(command *exec.Cmd) (*postmaster, error) {
	p := &postmaster{command: command, ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer close(p.ended)
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // how a server ended is in its log
		}
	}()
	return p, <-started
}

func (p *postmaster) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// stop ends the process with ever harder signals; it returns once it is gone.
// The context shortens the gentle part.
func (p *postmaster) stop(ctx context.Context) error {
	if err := p.send(signalFast); err != nil {
		return err
	}
	if p.wait(ctx, stopTimeout) {
		return nil
	}
	if err := p.send(signalImmediate); err != nil {
		return err
	}
	if p.wait(context.WithoutCancel(ctx), stopTimeout) {
		return nil
	}
	return p.kill()
}

func (p *postmaster) kill() error {
	if err := p.send(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.ended
	return nil
}

func (p *postmaster) send(signal syscall.Signal) error {
	err := p.command.Process.Signal(signal)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// wait reports whether the process ended within the limit.
func (p *postmaster) wait(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}
