package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// podProcess is one pod as its parent sees it. One goroutine asks at a time.
type podProcess struct {
	name    string
	ledger  string
	log     string // path of its standard error
	command *exec.Cmd
	stdin   io.WriteCloser
	replies chan reply
	ended   chan struct{} // closed once the process has been waited for
	killed  atomic.Bool   // by us, on purpose
	asked   atomic.Bool   // to stop
}

// repliesMax is how many replies may be unread: that of a request whose caller gave up,
// and the first line.
const repliesMax = 2

// launchSpec is what all pods of a demo have in common.
type launchSpec struct {
	program string
	dir     string // of ledgers and logs
	root    string // of the source tree
	environ []string
}

// launchPod starts a process. It is not ready yet; see awaitReady.
func launchPod(spec launchSpec, name string) (*podProcess, error) {
	p := &podProcess{
		name: name, ledger: filepath.Join(spec.dir, name+".ledger"), log: filepath.Join(spec.dir, name+".log"),
		replies: make(chan reply, repliesMax), ended: make(chan struct{}),
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create the log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	p.command = exec.Command(spec.program, PodCommand, "--root", spec.root, "--ledger", p.ledger)
	p.command.Env = append(spec.environ[:len(spec.environ):len(spec.environ)], "TROUPE_POD_NAME="+name)
	p.command.Stderr = log
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.follow(stdout)
	return p, nil
}

// follow hands on the pod's replies, and waits for its end.
func (p *podProcess) follow(stdout io.Reader) {
	defer close(p.ended)
	for decoder := json.NewDecoder(stdout); ; {
		var said reply
		if decoder.Decode(&said) != nil {
			break
		}
		p.replies <- said
	}
	close(p.replies)
	_ = p.command.Wait() // how it ended is in its log
}

// ask sends a request and waits for the reply.
func (p *podProcess) ask(ctx context.Context, asked request) (reply, error) {
	if err := json.NewEncoder(p.stdin).Encode(asked); err != nil {
		return reply{}, fmt.Errorf("%s: %w", p.name, errors.Join(err, p.crash()))
	}
	return p.await(ctx)
}

func (p *podProcess) await(ctx context.Context) (reply, error) {
	select {
	case said, open := <-p.replies:
		switch {
		case !open:
			<-p.ended
			return reply{}, p.crash()
		case said.Error != "":
			return said, fmt.Errorf("%s: %s", p.name, said.Error)
		}
		return said, nil
	case <-ctx.Done():
		return reply{}, context.Cause(ctx)
	}
}

func (p *podProcess) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill ends the pod with SIGKILL: it gets no chance to say anything.
func (p *podProcess) kill() error {
	p.killed.Store(true)
	if err := p.command.Process.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}

// crash is the error of a pod that ended unasked, or nil.
func (p *podProcess) crash() error {
	if p.killed.Load() || p.asked.Load() || p.running() {
		return nil
	}
	return fmt.Errorf("%s ended by itself (%v): %s", p.name, p.command.ProcessState, lastLine(p.log))
}

// stop ends the pod in good order; one that does not end in time is killed.
func (p *podProcess) stop() error {
	p.asked.Store(true)
	_ = json.NewEncoder(p.stdin).Encode(request{Stop: true}) // a pod that is gone does not hear it
	timer := time.NewTimer(stopGrace + 2*time.Second)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not stop in %v", p.name, stopGrace), p.kill())
	}
	if p.killed.Load() || p.command.ProcessState.Success() {
		return nil
	}
	return fmt.Errorf("%s stopped with %v: %s", p.name, p.command.ProcessState, lastLine(p.log))
}

func lastLine(path string) string {
	text, err := os.ReadFile(path)
	text = bytes.TrimSpace(text)
	if err != nil || len(text) == 0 {
		return "its log is empty"
	}
	return strings.TrimSpace(string(text[bytes.LastIndexByte(text, '\n')+1:]))
}

// troop is all pods of a demo.
type troop []*podProcess

// launchTroop starts count pods and waits until each is ready.
func launchTroop(ctx context.Context, spec launchSpec, count int) (troop, error) {
	var pods troop
	for n := range count {
		p, err := launchPod(spec, fmt.Sprintf("pod-%d", n+1))
		if err != nil {
			return nil, errors.Join(err, pods.stop())
		}
		pods = append(pods, p)
	}
	ready, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("the pods were not ready within %v", readyTimeout))
	defer cancel()
	for _, p := range pods {
		if _, err := p.await(ready); err != nil {
			return nil, errors.Join(err, pods.stop())
		}
	}
	return pods, nil
}

const readyTimeout = 30 * time.Second

// stop ends all pods, at the same time.
func (t troop) stop() error {
	errs := make([]error, len(t))
	done := make(chan struct{})
	for i, p := range t {
		go func() {
			errs[i] = p.stop()
			done <- struct{}{}
		}()
	}
	for range t {
		<-done
	}
	return errors.Join(errs...)
}

// crash returns why a pod that should run does not, or nil.
func (t troop) crash() error {
	for _, p := range t {
		if err := p.crash(); err != nil {
			return err
		}
	}
	return nil
}

func (t troop) ledgers() []string {
	paths := make([]string, len(t))
	for i, p := range t {
		paths[i] = p.ledger
	}
	return paths
}

func (t troop) named(name string) *podProcess {
	for _, p := range t {
		if p.name == name {
			return p
		}
	}
	return nil
}

// alive returns the first pod that runs.
func (t troop) alive() (*podProcess, error) {
	for _, p := range t {
		if p.running() {
			return p, nil
		}
	}
	return nil, errors.New("no pod is left")
}
