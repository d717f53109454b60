package output

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// Watch prints what draw writes, again after each interval, until the context ends: in
// place on a terminal, else one below the other. It returns the cause of the end.
func Watch(ctx context.Context, out io.Writer, every time.Duration, draw func(out io.Writer) error) error {
	screen := screenOf(out)
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		var page bytes.Buffer
		if err := draw(&page); err != nil {
			return err
		}
		if _, err := out.Write(screen.frame(page.Bytes())); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticks.C:
		}
	}
}

// screen is what the terminal that is written to can show; nil: there is none.
type screen struct {
	size func() (columns, rows int, err error)
}

// screenOf looks at where it writes to. A dumb terminal is none.
func screenOf(out io.Writer) *screen {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return &screen{size: func() (int, int, error) { return term.GetSize(int(file.Fd())) }}
}

// frame is what replaces the page before by this one.
func (s *screen) frame(page []byte) []byte {
	if s == nil {
		return page
	}
	const erase = "\x1b[H\x1b[J" // to the first column of the first row, and all below is erased
	columns, rows, err := s.size()
	if err != nil || columns < 1 || rows < 2 {
		return append([]byte(erase), page...)
	}
	lines := strings.Split(strings.TrimSuffix(string(page), "\n"), "\n")
	if len(lines) > rows-1 {
		rest := len(lines) - (rows - 2)
		lines = append(lines[:rows-2], "… and "+Count(rest, "more line"))
	}
	for i := range lines {
		lines[i] = Short(lines[i], columns)
	}
	return []byte(erase + strings.Join(lines, "\n") + "\n")
}

// Follow calls look until it reports that there is nothing more to come, or the context
// ends, whose cause it returns then. The first wait between two looks is first; waits
// double up to last while looks find nothing.
func Follow(ctx context.Context, first, last time.Duration, look func() (found, over bool, err error)) error {
	if first <= 0 || last < first {
		return errors.New("follow: the waits are not in order")
	}
	wait := time.NewTimer(0)
	defer wait.Stop()
	for pause := first; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-wait.C:
		}
		found, over, err := look()
		if err != nil || over {
			return err
		}
		if found {
			pause = first
		}
		wait.Reset(pause)
		pause = min(2*pause, last)
	}
}
