package workflow

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// valid returns a definition of two steps without problems.
func valid() *Definition {
	return &Definition{
		Name: "w", InputType: "I", Policy: FailFast, Output: 1,
		Steps: []Step{
			{Name: "a", Kind: Func, Type: "A"},
			{Name: "b", Kind: Func, Type: "B", Parents: []Edge{{0, Plain}}},
		},
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "order-processing", "v1.2_x", "0", strings.Repeat("x", NameMax)} {
		require.NoError(t, CheckName(good), good)
	}
	for bad, why := range map[string]string{
		"":                             "empty",
		strings.Repeat("x", NameMax+1): "256 bytes",
		strings.Repeat("x", 10_000):    "10000 bytes",
		"a\x00b":                       `'\x00' at byte 1`,
		"a\nb":                         `'\n' at byte 1`,
		"a\u202eb":                     `'\u202e' at byte 1`,
		"../etc":                       "'/' at byte 2",
		"a..b":                         `".." in it`,
		"-a":                           "begins with '-'",
		".":                            "begins with '.'",
		"launch🚀":                      "at byte 6",
		"naïve":                        "at byte 2",
		"a b":                          "' ' at byte 1",
		"\xff":                         "at byte 0",
	} {
		err := CheckName(bad)
		require.ErrorContains(t, err, why, "%q", bad)
		require.Len(t, Problems(err), 1)
	}
}

func TestCheckRetry(t *testing.T) {
	t.Parallel()
	century := DurationMax + 1
	for _, good := range []RetryPolicy{
		{},
		{Attempts: 1},
		{Attempts: AttemptsMax, First: time.Second, Factor: 1, Cap: time.Second, Jitter: 1},
		{Attempts: 3, Factor: FactorMax, Cap: DurationMax, Jitter: -1},
		{Attempts: 3, Never: []string{"declined", "panic", "timed_out"}},
	} {
		require.NoError(t, CheckRetry(good), "%+v", good)
	}
	for field, bad := range map[string]RetryPolicy{
		"retry.attempts: -1 attempts":         {Attempts: -1},
		"retry.attempts: 1000001 attempts":    {Attempts: AttemptsMax + 1},
		"retry.first: -1s is negative":        {First: -time.Second},
		"retry.first: 876600h0m0.000000001s":  {First: century},
		"retry.first: 2s is longer than":      {First: 2 * time.Second, Cap: time.Second},
		"retry.cap: -1s is negative":          {Cap: -time.Second},
		"retry.cap: 876600h0m0.000000001s is": {Cap: century},
		"retry.factor: 0.5 is not from 1":     {Factor: 0.5},
		"retry.factor: -2 is not":             {Factor: -2},
		"retry.factor: NaN is not":            {Factor: math.NaN()},
		"retry.factor: +Inf is not":           {Factor: math.Inf(1)},
		"retry.jitter: 1.5 is over 1":         {Jitter: 1.5},
		"retry.jitter: NaN is over 1":         {Jitter: math.NaN()},
		"retry.never[1]: the class is empty":  {Never: []string{"a", ""}},
		"retry.never[0]: lost attempts are":   {Never: []string{"lost"}},
		`retry.never[0]: "\xff" names no`:     {Never: []string{"\xff"}},
	} {
		require.ErrorContains(t, CheckRetry(bad), field)
	}
	all := CheckRetry(RetryPolicy{Attempts: -1, First: -1, Factor: -1, Cap: -1, Jitter: 2})
	require.Len(t, Problems(all), 5, "all problems at once")
}

// TestFields has one bad value for each field that scripts cannot write.
func TestFields(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(*Definition){
		`name: the name has '/' at byte 2`:                                                func(d *Definition) { d.Name = "../x" },
		`policy: unknown failure policy 0`:                                                func(d *Definition) { d.Policy = 0 },
		`output: refers to step 2 of 2`:                                                   func(d *Definition) { d.Output = 2 },
		`output: refers to step -1 of 2`:                                                  func(d *Definition) { d.Output = -1 },
		`step "a": kind: unknown kind 9`:                                                  func(d *Definition) { d.Steps[0].Kind = 9 },
		`step "b": parents[0]: unknown edge kind 0`:                                       func(d *Definition) { d.Steps[1].Parents[0].Kind = 0 },
		`step "b": conditions[0]: unknown condition kind 0`:                               func(d *Definition) { d.Steps[1].Conditions = []Condition{{}} },
		`step "b": conditions[0]: only a Case names a value`:                              func(d *Definition) { d.Steps[1].Conditions = []Condition{{Kind: Then, Case: "x"}} },
		`step "": name: the name is empty`:                                                nil,
		`step "a": queue: the name has ' ' at byte 0`:                                     func(d *Definition) { d.Steps[0].Options.Queue = " " },
		`step "a": retry.attempts: -1 attempts`:                                           func(d *Definition) { d.Steps[0].Options.Retry.Attempts = -1 },
		`step "a": attempt_timeout: -1ns is negative`:                                     func(d *Definition) { d.Steps[0].Options.AttemptTimeout = -1 },
		`step "a": heartbeat_timeout: -1ns is negative`:                                   func(d *Definition) { d.Steps[0].Options.HeartbeatLimit = -1 },
		`step "a": schedule_to_start_timeout: 2562047h47m16.854775807s is over 100 years`: func(d *Definition) { d.Steps[0].Options.ScheduleToStart = math.MaxInt64 },
		`step "b": parents: a sleep takes no parameters`:                                  func(d *Definition) { d.Steps[1].Kind, d.Steps[1].Sleep = Sleep, 1 },
		`step "a": options: a sleep has no attempts`:                                      func(d *Definition) { d.Steps[0] = Step{Name: "a", Kind: Sleep, Sleep: 1, Options: Options{InTx: true}} },
		`step "a": sleep: 0s is not a positive duration`:                                  func(d *Definition) { d.Steps[0] = Step{Name: "a", Kind: Sleep} },
		`step "a": sleep: 876600h0m0.000000001s is over 100 years`:                        func(d *Definition) { d.Steps[0] = Step{Name: "a", Kind: Sleep, Sleep: DurationMax + 1} },
		`step "a": wake_from: refers to step 7 of 2`:                                      func(d *Definition) { d.Steps[0] = Step{Name: "a", Kind: SleepUntil, WakeFrom: 7} },
		`step "h": kind: the failure handler is not a function`:                           func(d *Definition) { d.OnFailure = &Step{Name: "h", Kind: Sleep} },
		`step "h": parents: the failure handler depends on steps`:                         func(d *Definition) { d.OnFailure = &Step{Name: "h", Kind: Func, After: []Edge{{0, Plain}}} },
		`step "h": schedule_to_start_timeout: the failure handler has`: func(d *Definition) {
			d.OnFailure = &Step{Name: "h", Kind: Func, Options: Options{ScheduleToStart: 1}}
		},
	} {
		d := valid()
		require.NoError(t, d.Validate())
		if spoil == nil {
			d.Steps[0].Name, want = "", strings.TrimPrefix(want, `step "": `)
		} else {
			spoil(d)
		}
		_, err := NewGraph(d)
		require.ErrorContains(t, err, want)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	one, two := Problem{Step: "a", Text: "x"}, Problem{Field: "f", Text: "y", Remedy: "z"}
	require.Equal(t, `step "a": x`, one.Error())
	require.Equal(t, "f: y: z", two.Error())
	err := fmt.Errorf("wrapped: %w", errors.Join(one, errors.New("other"), errors.Join(two)))
	require.Equal(t, []Problem{one, two}, Problems(err))
	require.Empty(t, Problems(nil))
	long := Problem{Step: "\x1b[31m" + strings.Repeat("n", 1000), Text: "x"}
	require.Less(t, len(long.Error()), 200)
	require.NotContains(t, long.Error(), "\x1b")
}

func TestTooManyProblemsAreCounted(t *testing.T) {
	t.Parallel()
	d := valid()
	for range 1000 {
		d.Steps = append(d.Steps, Step{Kind: Func, Name: "x y"})
	}
	problems := Problems(d.Validate())
	require.Len(t, problems, ProblemsMax+1)
	require.Equal(t, "and 1899 more problems", problems[ProblemsMax].Text)
}

func TestLargeDefinitions(t *testing.T) {
	t.Parallel()
	chain := &Definition{Name: "chain", Policy: FailFast, Steps: make([]Step, StepsMax)}
	for i := range chain.Steps {
		chain.Steps[i] = Step{Name: fmt.Sprintf("s%d", i), Kind: Func}
		if i > 0 {
			chain.Steps[i].Parents = []Edge{{i - 1, Plain}}
		}
	}
	g, err := NewGraph(chain)
	require.NoError(t, err)
	require.EqualValues(t, 1, g.Sinks())

	chain.Steps[0].Parents = []Edge{{StepsMax - 1, Plain}}
	problems := Problems(chain.Validate())
	require.Len(t, problems, 1, "the whole chain is one cycle")
	require.Contains(t, problems[0].Text, `"s0" → "s1" → `)
	require.Contains(t, problems[0].Text, "(99988 more)")
	require.Less(t, len(problems[0].Text), 1000)

	chain.Steps[0].Parents = nil
	chain.Steps = append(chain.Steps, Step{Name: "one-more", Kind: Func})
	require.ErrorContains(t, chain.Validate(), "100001 steps: use at most 100000")

	wide := &Definition{Name: "wide", Policy: FailFast, Steps: []Step{{Name: "root", Kind: Func}}}
	join := Step{Name: "join", Kind: Func}
	for i := range 5000 {
		wide.Steps = append(wide.Steps, Step{
			Name: fmt.Sprintf("s%d", i), Kind: Func,
			Conditions: []Condition{{Kind: Case, Ref: 0, Decision: i % 100, Case: fmt.Sprint(i)}},
		})
		join.Parents = append(join.Parents, Edge{i + 1, Maybe})
	}
	wide.Steps = append(wide.Steps, join)
	g, err = NewGraph(wide)
	require.NoError(t, err)
	require.Len(t, g.Nodes[0].Children, 5000)
	require.EqualValues(t, 5000, g.Nodes[5001].Pending)
}

// TestManyBranches: what is forgotten beyond the bound hides contradictions,
// and never invents one.
func TestManyBranches(t *testing.T) {
	t.Parallel()
	d := &Definition{Name: "w", Policy: FailFast, Steps: []Step{{Name: "s0", Kind: Func}}}
	for i := range 2 * branchesMax {
		d.Steps = append(d.Steps, Step{
			Name: fmt.Sprintf("s%d", i+1), Kind: Func,
			Conditions: []Condition{{Kind: Then, Ref: i, Decision: i}},
		})
	}
	require.NoError(t, d.Validate())
}
