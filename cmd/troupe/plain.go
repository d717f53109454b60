package main

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plain renders a text of somebody else's for a terminal or a log: what could
// move the cursor, change colors, break the line or turn the direction of
// writing is shown as it is written in Go, and so is what is no UTF-8.
func plain(text string) string {
	harmless := func(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) }
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
