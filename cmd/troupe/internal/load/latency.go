package load

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Spread is how long something takes: always the same, or any time between
// two.
type Spread struct {
	Least time.Duration `json:"least_ns"`
	Most  time.Duration `json:"most_ns"`
}

// String implements pflag.Value.
func (s *Spread) String() string {
	if s.Least == s.Most {
		return s.Least.String()
	}
	return s.Least.String() + "-" + s.Most.String()
}

// Set implements pflag.Value: it reads 10ms, or 10ms-30ms.
func (s *Spread) Set(text string) error {
	least, most, two := strings.Cut(text, "-")
	if !two {
		most = least
	}
	var err error
	var read Spread
	if read.Least, err = time.ParseDuration(least); err == nil {
		read.Most, err = time.ParseDuration(most)
	}
	if err != nil {
		return errors.New("use a duration such as 10ms, or two as in 10ms-30ms")
	}
	if read.Most < read.Least {
		return fmt.Errorf("%v is more than %v: put the shorter one first", read.Least, read.Most)
	}
	*s = read
	return nil
}

// Type implements pflag.Value.
func (s *Spread) Type() string { return "duration[-duration]" }

// at returns a time of the spread; share is between 0 and 1.
func (s *Spread) at(share float64) time.Duration {
	return s.Least + time.Duration(share*float64(s.Most-s.Least))
}
