package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// plain renders a foreign text for a terminal or a log: what could
// move the cursor, change colors, break the line or turn the direction of
// writing is shown as it is written in Go, and so is what is no UTF-8.
func plain(text string) string {
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

// short cuts a text to so many runes.
func short(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit-1]) + "…"
}

// printDocument prints one value, with nothing in it that a terminal would obey.
func printDocument(out io.Writer, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	for i := range lines {
		lines[i] = visible(lines[i])
	}
	_, err = fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// visible replaces what a terminal would obey, or not show, the way JSON writes
// it: names, errors and statements may come from any program.
func visible(text string) string {
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
