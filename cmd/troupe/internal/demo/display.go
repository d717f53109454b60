package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// display shows how the demo goes: in place on a terminal, else in lines.
type display struct {
	out   io.Writer
	size  func() (columns, rows int) // nil: no terminal
	ink   ink
	drawn int           // lines that the next drawing replaces
	said  time.Duration // when the last plain line was written
}

// plainEvery is the time between two lines where no terminal is.
const plainEvery = 2 * time.Second

// newDisplay looks at where it writes to. NO_COLOR and a dumb terminal are
// respected.
func newDisplay(out io.Writer) *display {
	d := &display{out: out, said: -plainEvery}
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return d
	}
	d.ink.colored = os.Getenv("NO_COLOR") == ""
	d.size = func() (int, int) {
		columns, rows, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 0, 0
		}
		return columns, rows
	}
	return d
}

// show draws a snapshot over the one before.
func (d *display) show(s snapshot) {
	columns, rows := 0, 0
	if d.size != nil {
		columns, rows = d.size()
	}
	lines := s.lines(max(columns, columnsMin), d.ink)
	if columns < columnsMin || rows <= len(lines) {
		d.clear()
		if s.elapsed-d.said >= plainEvery {
			d.said = s.elapsed
			d.print(s.line() + "\n")
		}
		return
	}
	var text strings.Builder
	text.WriteString("\x1b[?25l" + d.up())
	for _, line := range lines {
		text.WriteString(line + "\x1b[K\n")
	}
	text.WriteString("\x1b[J")
	d.print(text.String())
	d.drawn = len(lines)
}

// say prints a line that stays, above what show draws.
func (d *display) say(format string, args ...any) {
	d.clear()
	d.print(fmt.Sprintf(format, args...) + "\n")
}

// clear removes the drawing and gives the cursor back.
func (d *display) clear() {
	if d.drawn > 0 {
		d.print(d.up() + "\x1b[J\x1b[?25h")
		d.drawn = 0
	}
}

// rest leaves the drawing where it is.
func (d *display) rest() {
	if d.drawn > 0 {
		d.print("\x1b[?25h")
		d.drawn = 0
	}
}

func (d *display) up() string {
	if d.drawn == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dF", d.drawn)
}

// print writes. That the reader has gone away is no reason to stop.
func (d *display) print(text string) { _, _ = io.WriteString(d.out, text) }
