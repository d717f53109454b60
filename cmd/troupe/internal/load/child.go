package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// process is one pod as its parent sees it.
type process struct {
	index    int
	name     string
	command  *exec.Cmd
	stdin    io.WriteCloser
	errors   *os.File // its log
	finished atomic.Bool
	ended    chan struct{} // closed once the process has been waited for
}

// heard is a line from a pod, or its end.
type heard struct {
	from int
	news
	gone bool
}

// launch starts a pod, whose news go to the channel.
func launch(o Options, url string, index int, out chan<- heard) (*process, error) {
	p := &process{index: index, name: fmt.Sprintf("pod-%d", index+1), ended: make(chan struct{})}
	var err error
	if p.errors, err = os.CreateTemp("", "troupe-bench-*.log"); err != nil {
		return nil, fmt.Errorf("create a log: %w", err)
	}
	p.command = exec.Command(o.Program, PodCommand)
	p.command.Env = append(o.Environ[:len(o.Environ):len(o.Environ)], "TROUPE_DATABASE_URL="+url, "TROUPE_POD_NAME="+p.name)
	p.command.Stderr = p.errors
	p.stdin, err = p.command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	stdout, err := p.command.StdoutPipe()
	if err == nil {
		err = p.command.Start()
	}
	if err != nil {
		p.forget()
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	go p.follow(stdout, out)
	load := o.share(index)
	return p, p.tell(instruction{Load: &load})
}

// follow hands on what the pod says, and waits for its end.
func (p *process) follow(stdout io.Reader, out chan<- heard) {
	for decoder := json.NewDecoder(stdout); ; {
		said := heard{from: p.index}
		if decoder.Decode(&said.news) != nil {
			break
		}
		out <- said
	}
	_ = p.command.Wait() // how it ended is in its state
	out <- heard{from: p.index, gone: true}
	close(p.ended)
}

// tell sends an instruction. A pod that is gone does not hear it; its end is
// heard of by itself.
func (p *process) tell(next instruction) error {
	err := json.NewEncoder(p.stdin).Encode(next)
	if errors.Is(err, os.ErrClosed) || errors.Is(err, io.ErrClosedPipe) || strings.Contains(fmt.Sprint(err), "broken pipe") {
		return nil
	}
	return err
}

// crash is the error of a pod that ended before it was told to.
func (p *process) crash() error {
	return fmt.Errorf("%s ended by itself (%v): %s", p.name, p.command.ProcessState, p.lastWords())
}

func (p *process) lastWords() string {
	text, err := os.ReadFile(p.errors.Name())
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if err != nil || lines[len(lines)-1] == "" {
		return "its log is empty"
	}
	return lines[len(lines)-1]
}

// end makes sure that the process is over, and removes its log.
func (p *process) end() {
	_ = p.stdin.Close() // a pod ends when its parent's end of the pipe closes
	timer := time.NewTimer(stopGrace + 2*time.Second)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		_ = p.command.Process.Kill() // it has had its time
		<-p.ended
	}
	p.forget()
}

func (p *process) forget() {
	_ = p.errors.Close()
	_ = os.Remove(p.errors.Name()) // in the folder for temporary files
}
