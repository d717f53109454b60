package output

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Plain renders a foreign text for a terminal or a log: what could
// move the cursor, change colors, break the line or turn the direction of
// writing is shown as it is written in Go, and so are bytes that are not UTF-8.
func Plain(text string) string {
	harmless := func(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) && !obeyed(r) }
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !harmless(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if harmless(r) {
			b.WriteRune(r)
		} else {
			quoted := strconv.QuoteToASCII(text[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[size:]
	}
	return b.String()
}

// Visible replaces what a terminal would obey, or not show, the way JSON writes
// it: names, errors and statements may come from any program.
func Visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if !obeyed(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// obeyed reports whether a rune is a control character, changes the direction or
// the lines of the text behind it, or is invisible. An invisible rune would make two
// different names look the same.
func obeyed(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// Short cuts a text to so many runes.
func Short(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit-1]) + "…"
}

// FirstLine is the first line of a text, which of an error says most.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// ErrorWidth is how much of an error a table shows, in characters.
const ErrorWidth = 80

// childRun is how the error of a step begins whose child run has failed.
var childRun = regexp.MustCompile(`child run [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// Error is as much of an error as a table shows. It leaves out the ids of child runs, so that there is
// room for the cause.
func Error(text string) string {
	return Short(childRun.ReplaceAllString(FirstLine(text), "child run"), ErrorWidth)
}

// Stamp is an instant in a table; the zero one is a dash.
func Stamp(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}

// Count is a number of things: 1 run, 2 runs.
func Count[N int | int64](n N, one string) string { return Several(n, one, one+"s") }

// Several is a number with what it is of: 1 timer is late, 2 timers are late.
func Several[N int | int64](n N, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(int64(n), 10) + " " + more
}

// Times says how often: once, twice, 3 times.
func Times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return strconv.Itoa(n) + " times"
}
