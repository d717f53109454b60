package load

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// display shows how the load goes: in place on a terminal, else a line now and
// then.
type display struct {
	out   io.Writer
	width func() int // nil: no terminal
	drawn bool
	shown time.Duration
	past  []point
}

// Times between two drawings.
const (
	drawEvery  = 200 * time.Millisecond
	plainEvery = 2 * time.Second
	rateOver   = 2 * time.Second
)

// point is how many runs had ended at one time.
type point struct {
	at    time.Duration
	ended int64
}

func newDisplay(out io.Writer) *display {
	d := &display{out: out}
	file, ok := out.(*os.File)
	if ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" {
		d.width = func() int {
			columns, _, err := term.GetSize(int(file.Fd()))
			if err != nil {
				return 0
			}
			return columns
		}
	}
	return d
}

// progress is how far the load has come.
type progress struct {
	load     Load
	passed   time.Duration
	sum      tally
	forgiven int64
	halted   bool
}

func (p progress) ended() int64 { return p.sum.ended() + p.forgiven }

// share is how much of the load is over.
func (p progress) share() float64 {
	share := 0.0
	if p.load.Duration > 0 {
		share = p.passed.Seconds() / p.load.Duration.Seconds()
	}
	if p.load.Runs > 0 {
		share = max(share, float64(p.ended())/float64(p.load.Runs))
	}
	return max(0, min(1, share))
}

func (p progress) text(rate float64) string {
	text := fmt.Sprintf("%6.1f s  %9s  %9s runs/s  %8s open", max(0, p.passed).Seconds(),
		grouped(p.ended()), grouped(int64(rate)), grouped(max(0, p.sum.Triggered-p.ended())))
	if p.sum.Failed > 0 || p.load.FatalRate > 0 {
		text += fmt.Sprintf("  %s failed", grouped(p.sum.Failed+p.forgiven))
	} else if p.forgiven > 0 {
		text += fmt.Sprintf("  %s failed unasked", grouped(p.forgiven))
	}
	if p.sum.Elements > 0 {
		text += fmt.Sprintf("  %s elements", grouped(p.sum.Elements))
	}
	if p.sum.Retried > 0 || p.load.FailureRate > 0 {
		text += fmt.Sprintf("  %s retried", grouped(p.sum.Retried))
	}
	if p.sum.Refused > 0 {
		text += fmt.Sprintf("  %s refused", grouped(p.sum.Refused))
	}
	switch {
	case p.halted:
		text += "  stopping"
	case p.sum.Idle:
		text += "  letting runs end"
	}
	return text
}

// show draws the progress, unless it did so a moment ago.
func (d *display) show(p progress) {
	every := plainEvery
	if d.width != nil {
		every = drawEvery
	}
	if p.passed-d.shown < every {
		return
	}
	d.shown = p.passed.Truncate(every)
	text := p.text(d.rate(point{p.passed, p.ended()}))
	if d.width == nil {
		d.print(text + "\n")
		return
	}
	const barWidth = 20
	line := bar(p.share(), barWidth) + " " + text
	if room := d.width() - 1; len([]rune(line)) > room {
		line = string([]rune(text)[:max(0, min(room, len([]rune(text))))])
	}
	d.drawn = true
	d.print("\r" + line + "\x1b[K")
}

// rate is how many runs ended per second, lately.
func (d *display) rate(now point) float64 {
	d.past = append(d.past, now)
	for len(d.past) > 2 && now.at-d.past[1].at >= rateOver {
		d.past = d.past[1:]
	}
	first := d.past[0]
	if len(d.past) == 1 {
		first = point{}
	}
	if now.at <= first.at {
		return 0
	}
	return float64(now.ended-first.ended) / (now.at - first.at).Seconds()
}

// say prints a line that stays.
func (d *display) say(format string, args ...any) {
	d.clear()
	d.print(fmt.Sprintf(format, args...) + "\n")
}

// clear removes what was drawn.
func (d *display) clear() {
	if d.drawn {
		d.drawn = false
		d.print("\r\x1b[K")
	}
}

// print writes. That the reader has gone away is no reason to stop.
func (d *display) print(text string) { _, _ = io.WriteString(d.out, text) }

// bar draws a share of a width, to an eighth of a character.
func bar(share float64, width int) string {
	eighths := int(share*float64(width)*8 + 0.5)
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune(" ▏▎▍▌▋▊▉")[rest])
	}
	return text + strings.Repeat(" ", width-len([]rune(text)))
}
