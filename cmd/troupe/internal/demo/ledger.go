package demo

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/troupe-dev/troupe"
)

// ledger is one pod's file of effects: what its step functions did, whether or
// not the engine came to know. Lines survive the pod's SIGKILL, because each
// is handed to the kernel in one write.
type ledger struct{ file *os.File }

// taskKey names one task in ledgers and history.
type taskKey struct{ run, step string }

// effects is how often a task's step function began, and how often it came to
// a successful end.
type effects struct{ begun, ended int }

const (
	markBegun = "begun"
	markEnded = "ended"
)

func createLedger(path string) (*ledger, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create the ledger: %w", err)
	}
	return &ledger{file}, nil
}

func (l *ledger) write(mark string, task troupe.TaskInfo) error {
	line := fmt.Sprintf("%s %v %q %d\n", mark, task.Run, task.Step, task.Attempt)
	if _, err := l.file.WriteString(line); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	return nil
}

func (l *ledger) close() error { return l.file.Close() }

// recorded does the work of a step function between two lines of the ledger.
func recorded[O any](ctx context.Context, l *ledger, work func() (O, error)) (O, error) {
	var none O
	task := troupe.Task(ctx)
	if err := l.write(markBegun, task); err != nil {
		return none, err
	}
	out, err := work()
	if err != nil {
		return none, err
	}
	return out, l.write(markEnded, task)
}

// readLedgers adds up the ledgers of all pods. A file that was never made
// belongs to a pod that executed nothing.
func readLedgers(paths []string) (map[taskKey]effects, error) {
	all := map[taskKey]effects{}
	for _, path := range paths {
		if err := readLedger(path, all); err != nil && !os.IsNotExist(err) {
			return nil, fmt.Errorf("read the ledger: %w", err)
		}
	}
	return all, nil
}

func readLedger(path string, into map[taskKey]effects) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read from
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var mark string
		var key taskKey
		var attempt int
		if _, err := fmt.Sscanf(lines.Text(), "%s %s %q %d", &mark, &key.run, &key.step, &attempt); err != nil {
			return fmt.Errorf("%s: %q is not a line of a ledger", path, lines.Text())
		}
		sum := into[key]
		if mark == markBegun {
			sum.begun++
		} else {
			sum.ended++
		}
		into[key] = sum
	}
	return lines.Err()
}
