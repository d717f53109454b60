package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ageForms names what --since, --until, --older-than and --younger-than take for a span.
const ageForms = "a duration such as 2h or 3d"

// ageMax bounds such a span, as a filter does.
const ageMax = 100 * 365 * 24 * time.Hour

// parseAge reads a duration as Go writes it, or a number of days, as in 3d.
func parseAge(text string) (time.Duration, error) {
	if days, is := strings.CutSuffix(text, "d"); is {
		day, err := time.ParseDuration(days + "h")
		switch {
		case err != nil || strings.Trim(days, "+-.0123456789") != "":
			return 0, errors.New("use " + ageForms)
		case day.Abs() > ageMax/24:
			return 0, fmt.Errorf("use at most %.0fd, a hundred years", ageMax.Hours()/24)
		}
		return 24 * day, nil
	}
	span, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("use " + ageForms)
	}
	return span, nil
}

// age is the value of a flag that parseAge reads.
type age time.Duration

// String implements pflag.Value.
func (a *age) String() string { return time.Duration(*a).String() }

// Type implements pflag.Value. Help shows it.
func (a *age) Type() string { return "duration" }

// Set implements pflag.Value.
func (a *age) Set(text string) error {
	span, err := parseAge(text)
	*a = age(span)
	return err
}

// instantOf reads an instant, or how long ago it was.
func instantOf(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := parseAge(text); err == nil {
		if ago < 0 || ago > ageMax {
			return time.Time{}, fmt.Errorf("--%s is %s: use a positive duration of at most %.0fh, a hundred years", flag, text, ageMax.Hours())
		}
		return time.Now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("--%s is %q: use %s, or an instant such as 2030-01-31T08:00:00Z", flag, text, ageForms)
	}
	return at, nil
}
