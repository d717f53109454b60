package report

import (
	"encoding/json"
	"io"
	"math"
	"slices"
)

// Role says what a peer counts as in the ratios.
type Role uint8

// The roles.
const (
	Peer  Role = iota
	Ours       // compared with the others, and never one of them
	Limit      // the limit
	Bound      // another limit, shown and not compared with
)

// Key names one number of the comparison.
type Key struct{ Case, Peer, Setting string }

// Line is one number: the median over the runs.
type Line struct {
	Case    string  `json:"case"`
	Peer    string  `json:"peer"`
	Setting string  `json:"setting"` // name, and what is set
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	// RatioToBestPeer is the value divided by that of the best peer in its best
	// setting, RatioToLimit the same with the limit; nil: there is none.
	RatioToBestPeer *float64 `json:"ratio_to_best_peer"`
	RatioToLimit    *float64 `json:"ratio_to_limit"`
	Runs            int      `json:"runs"`
	Min             float64  `json:"min"`
	Max             float64  `json:"max"`

	short  string // name of the setting
	role   Role
	higher bool
}

// Collection gathers the values of repeats.
type Collection struct {
	order  []Key
	series map[Key]*series
}

type series struct {
	values []float64
	like   Line
}

// Sample is one value of one run.
type Sample struct {
	Key
	Says   string // what the setting sets
	Role   Role
	Value  float64
	Unit   string
	Higher bool // is better
}

// Add adds a value.
func (c *Collection) Add(s Sample) {
	if c.series == nil {
		c.series = map[Key]*series{}
	}
	found := c.series[s.Key]
	if found == nil {
		setting := s.Setting
		if s.Says != "" {
			setting += ": " + s.Says
		}
		found = &series{like: Line{
			Case: s.Case, Peer: s.Peer, Setting: setting, Unit: s.Unit, short: s.Setting, role: s.Role, higher: s.Higher,
		}}
		c.series[s.Key] = found
		c.order = append(c.order, s.Key)
	}
	found.values = append(found.values, s.Value)
}

// Lines are the medians with their ratios, case by case in the order in which
// they came first.
func (c *Collection) Lines() []Line {
	var cases []string
	byCase := map[string][]Line{}
	for _, key := range c.order {
		s := c.series[key]
		line := s.like
		line.Value, line.Runs = Median(s.values), len(s.values)
		line.Min, line.Max = slices.Min(s.values), slices.Max(s.values)
		if byCase[key.Case] == nil {
			cases = append(cases, key.Case)
		}
		byCase[key.Case] = append(byCase[key.Case], line)
	}
	var all []Line
	for _, name := range cases {
		lines := byCase[name]
		peer, limit := best(lines, Peer), best(lines, Limit)
		for i := range lines {
			lines[i].RatioToBestPeer, lines[i].RatioToLimit = ratio(lines[i].Value, peer), ratio(lines[i].Value, limit)
		}
		all = append(all, lines...)
	}
	return all
}

// best is the best value of a role; nil: there is none.
func best(lines []Line, role Role) *float64 {
	var found *float64
	for _, line := range lines {
		if line.role != role {
			continue
		}
		if found == nil || line.higher == (line.Value > *found) {
			found = &line.Value
		}
	}
	return found
}

// ratio is nil where there is nothing to divide by.
func ratio(value float64, by *float64) *float64 {
	if by == nil || *by == 0 {
		return nil
	}
	r := math.Round(1000*value / *by) / 1000
	return &r
}

// WriteJSON writes one line of JSON per number.
func WriteJSON(w io.Writer, lines []Line) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, line := range lines {
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return nil
}
