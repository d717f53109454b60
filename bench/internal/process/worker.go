package process

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/bench/internal/cases"
)

// worker is the other process, seen from the one that measures. It reads the
// spec from its standard input, prints "ready" and then a line per job that
// starts, and ends when its input does.
type worker struct {
	command *exec.Cmd
	input   io.WriteCloser
	starts  chan cases.Start
}

func startWorker(ctx context.Context, spec cases.Spec) (cases.Worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{command: exec.CommandContext(ctx, self, Work), starts: make(chan cases.Start, 1000)}
	w.command.Stderr = os.Stderr
	w.command.WaitDelay = time.Second
	if w.input, err = w.command.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := w.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.command.Start(); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(w.input).Encode(spec); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	lines := bufio.NewScanner(output)
	if !lines.Scan() {
		return nil, errors.Join(errors.New("the worker process did not start"), w.Close())
	}
	go w.read(lines)
	return w, nil
}

func (w *worker) read(lines *bufio.Scanner) {
	defer close(w.starts)
	for lines.Scan() {
		var s cases.Start
		if _, err := fmt.Sscan(lines.Text(), &s.Job, &s.At); err != nil {
			return
		}
		w.starts <- s
	}
}

// Starts implements cases.Worker.
func (w *worker) Starts() <-chan cases.Start { return w.starts }

// Close implements cases.Worker.
func (w *worker) Close() error {
	return errors.Join(w.input.Close(), w.command.Wait())
}

// WorkMain is the worker's process.
func WorkMain(ctx context.Context, in io.Reader, out io.Writer) error {
	buffered := bufio.NewReader(in)
	line, err := buffered.ReadBytes('\n')
	if err != nil {
		return err
	}
	b, _, err := open(ctx, bytes.NewReader(line))
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		_, _ = io.Copy(io.Discard, buffered) // until the parent process ends or closes it
	}()
	var printing sync.Mutex
	tell := func(s cases.Start) {
		printing.Lock()
		defer printing.Unlock()
		_, _ = fmt.Fprintln(out, s.Job, s.At) // the reader is gone
	}
	return cases.Work(ctx, b, tell, func() { _, _ = fmt.Fprintln(out, "ready") }, stop)
}
