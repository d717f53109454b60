package simulation

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

// display shows how a batch goes: in place on a terminal, else a line now and
// then.
type display struct {
	out      io.Writer
	terminal bool
	drawn    bool
	shown    time.Duration
}

// Times between two drawings.
const (
	drawEvery = 250 * time.Millisecond
	sayEvery  = 30 * time.Second
)

func newDisplay(out io.Writer) *display {
	file, ok := out.(*os.File)
	return &display{out: out, terminal: ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"}
}

// progress is how far a batch has come.
type progress struct {
	seeds, of, failed int
	passed, limit     time.Duration
}

func (p progress) String() string {
	text := output.Count(p.seeds, "seed")
	if p.of > 0 {
		text = fmt.Sprintf("%d of %s", p.seeds, output.Count(p.of, "seed"))
	}
	if p.limit > 0 {
		text += fmt.Sprintf(", %v of %v", p.passed.Round(time.Second), p.limit)
	}
	return text + fmt.Sprintf(", %.0f a minute, %d broke a promise", float64(p.seeds)/p.passed.Minutes(), p.failed)
}

func (d *display) show(p progress) {
	switch {
	case d.terminal && p.passed-d.shown >= drawEvery:
		d.drawn = true
		_, _ = fmt.Fprintf(d.out, "\r%v\x1b[K", p)
	case !d.terminal && p.passed-d.shown >= sayEvery:
		_, _ = fmt.Fprintln(d.out, p)
	default:
		return
	}
	d.shown = p.passed
}

// clear removes what was drawn.
func (d *display) clear() {
	if d.drawn {
		d.drawn = false
		_, _ = fmt.Fprint(d.out, "\r\x1b[K")
	}
}
