package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"github.com/troupe-dev/troupe/bench/internal/cases"
	"github.com/troupe-dev/troupe/bench/internal/roster"
)

// The words by which this program is told to be one of its parts. They are not
// meant to be typed.
const (
	Measure = "internal-measure" // one measurement
	Work    = "internal-work"    // the worker of another process's measurement
)

// outcome is what a measuring process prints.
type outcome struct {
	Figures []cases.Figure `json:"figures"`
	Error   string         `json:"error,omitempty"`
}

// Run makes one measurement in a process of its own.
func Run(ctx context.Context, spec cases.Spec) ([]cases.Figure, error) {
	input, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, self, Measure)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &stdout, &stderr
	command.WaitDelay = time.Second
	failed := command.Run()
	var got outcome
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		return nil, fmt.Errorf("the measuring process ended: %w: %s", errors.Join(failed, context.Cause(ctx)), tail(stderr.Bytes()))
	}
	if got.Error != "" {
		return nil, errors.New(got.Error)
	}
	return got.Figures, nil
}

// tail is the end of what a program said.
func tail(text []byte) string {
	const most = 2000
	return string(bytes.TrimSpace(text[max(0, len(text)-most):]))
}

// Main is the measuring process.
func Main(ctx context.Context, in io.Reader, out io.Writer) error {
	var got outcome
	figures, err := measure(ctx, in)
	if err != nil {
		got.Error = err.Error()
	}
	got.Figures = figures
	return json.NewEncoder(out).Encode(got)
}

func measure(ctx context.Context, in io.Reader) ([]cases.Figure, error) {
	b, c, err := open(ctx, in)
	if err != nil {
		return nil, err
	}
	b.Across = startWorker
	stop, err := profile(b.Profile)
	if err != nil {
		return nil, err
	}
	figures, err := c.Take(ctx, b)
	return figures, errors.Join(err, stop())
}

// profile starts a CPU profile of this process, where one is wanted.
func profile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}

// open reads a spec.
func open(ctx context.Context, in io.Reader) (*cases.Bench, cases.Case, error) {
	var spec cases.Spec
	if err := json.NewDecoder(in).Decode(&spec); err != nil {
		return nil, cases.Case{}, fmt.Errorf("read what to measure: %w", err)
	}
	debug.SetGCPercent(spec.GOGC)
	c, ok := cases.Find(spec.Case)
	if !ok {
		return nil, c, fmt.Errorf("no case is called %q", spec.Case)
	}
	entry, ok := roster.Find(spec.Peer)
	if !ok {
		return nil, c, fmt.Errorf("no peer is called %q", spec.Peer)
	}
	b, err := cases.Open(ctx, spec, entry, c.Shapes)
	return b, c, err
}
