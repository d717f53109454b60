package explain

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Span is a duration in at most two units, as people say it: 3 h 12 m.
func Span(d time.Duration) string {
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}}
	if d < time.Millisecond {
		return "0 s"
	}
	for i, unit := range units {
		if d < unit.size {
			continue
		}
		text := fmt.Sprintf("%d %s", d/unit.size, unit.name)
		if i+1 < len(units)-1 {
			if rest := d % unit.size / units[i+1].size; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, units[i+1].name)
			}
		}
		return text
	}
	return "0 s"
}

// shortMax bounds what of an error or a statement a line shows, in bytes.
const shortMax = 120

// Short is the beginning of a text, on one line.
func Short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= shortMax {
		return text
	}
	cut := shortMax
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// hiddenStatement is what PostgreSQL shows in place of a statement of another role.
const hiddenStatement = "<insufficient privilege>"

// Statement is the beginning of another session's statement, without the text
// behind the word password.
func Statement(sql string) string {
	if sql == hiddenStatement {
		return "a statement that this role may not see (pg_read_all_stats shows it)"
	}
	if at := strings.Index(strings.ToLower(sql), "password"); at >= 0 && at <= len(sql) {
		return Short(sql[:at]) + " password …"
	}
	return Short(sql)
}

// list names things, at most shown of them.
func list(names []string, shown int) string {
	if rest := len(names) - shown; rest > 0 {
		return strings.Join(names[:shown], ", ") + fmt.Sprintf(" and %d more", rest)
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

func count(n int, name string) string {
	if n == 1 {
		return "1 " + name
	}
	return fmt.Sprintf("%d %ss", n, name)
}

// one is the form of a verb for so many.
func one(n int32, singular, plural string) string {
	if n == 1 {
		return singular
	}
	return plural
}

// number is a number with a comma between thousands.
func number(n int32) string {
	text := strconv.Itoa(int(n))
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, suffix)
}
