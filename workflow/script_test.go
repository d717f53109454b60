package workflow

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// TestScripts runs testdata/*.txt. A case is a definition, a line of dashes,
// and what Validate or NewGraph says; cases are separated by an empty line.
// The first line of a definition is a comment that says what the case shows.
//
//	# why
//	func NAME parents=a,maybe:b after=settled:c when=then:0@a,case:1@b=x type=T all-skipped
//	sleep NAME 24h …
//	until NAME a …
//	policy finish-siblings | output NAME | on-failure NAME
//
// A step is named, or given as #N. After a failure: run with -update, read the
// diff, keep it only if you can explain it.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var got []string
			for _, c := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
				declared, _, _ := strings.Cut(c, "\n----")
				got = append(got, declared+"\n----\n"+describe(parseDefinition(t, declared)))
			}
			result := strings.Join(got, "\n\n") + "\n"
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(result), 0o600))
				return
			}
			if diff := cmp.Diff(string(text), result); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}

func describe(d *Definition) string {
	g, err := NewGraph(d)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for i := range g.Nodes {
		n := &g.Nodes[i]
		line := fmt.Sprintf("%s pending=%d", n.Name, n.Pending)
		for _, c := range n.Children {
			line += fmt.Sprintf(" →%s(%s%s)", g.Nodes[c.Step].Name, edgeNames[c.Kind], map[bool]string{true: ",conditioned"}[c.Conditioned])
		}
		for trait, name := range []string{" sleep=" + n.Sleep.String(), " sleep-until", " holds-settled", " run-if-all-skipped"} {
			if n.Traits.Has(1 << trait) {
				line += name
			}
		}
		lines = append(lines, line)
	}
	if g.OnFailure != nil {
		lines = append(lines, "on failure: "+g.OnFailure.Name)
	}
	return strings.Join(append(lines, fmt.Sprintf("sinks=%d", g.Sinks())), "\n")
}

var edgeNames = map[EdgeKind]string{Plain: "plain", Maybe: "maybe", Settled: "settled"}

var conditionNames = map[string]ConditionKind{
	"then": Then, "otherwise": Otherwise, "case": Case, "default": Default, "skip-if": SkipIf,
}

// parseDefinition reads one definition of a script.
func parseDefinition(t *testing.T, text string) *Definition {
	t.Helper()
	d := &Definition{Name: "w", InputType: "I", Policy: FailFast}
	var lines [][]string
	numbers := map[string]int{"input": Input}
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		switch words[0] {
		case "func", "sleep", "until":
			numbers[words[1]] = len(d.Steps)
			d.Steps = append(d.Steps, Step{Name: words[1]})
		}
		lines = append(lines, words)
	}
	ref := func(name string) int {
		if n, ok := strings.CutPrefix(name, "#"); ok {
			number, err := strconv.Atoi(n)
			require.NoError(t, err)
			return number
		}
		number, ok := numbers[name]
		require.True(t, ok, "no step %q", name)
		return number
	}
	next := 0
	for _, words := range lines {
		switch words[0] {
		case "policy":
			d.Policy = FinishSiblings
		case "output":
			d.Output = ref(words[1])
		case "on-failure":
			d.OnFailure = &Step{Name: words[1], Kind: Func}
		default:
			parseStep(t, &d.Steps[next], words, ref)
			next++
		}
	}
	return d
}

func parseStep(t *testing.T, s *Step, words []string, ref func(string) int) {
	t.Helper()
	options := words[2:]
	switch words[0] {
	case "func":
		s.Kind = Func
	case "sleep":
		duration, err := time.ParseDuration(words[2])
		require.NoError(t, err)
		s.Kind, s.Sleep, options = Sleep, duration, words[3:]
	case "until":
		s.Kind, s.WakeFrom, options = SleepUntil, ref(words[2]), words[3:]
	}
	for _, option := range options {
		key, list, _ := strings.Cut(option, "=")
		for _, value := range strings.Split(list, ",") {
			switch key {
			case "parents":
				s.Parents = append(s.Parents, parseEdge(value, ref))
			case "after":
				s.After = append(s.After, parseEdge(value, ref))
			case "when":
				s.Conditions = append(s.Conditions, parseCondition(t, value, ref))
			case "type":
				s.Type = value
			case "all-skipped":
				s.RunIfAllSkipped = true
			default:
				t.Fatalf("unknown option %q", option)
			}
		}
	}
}

func parseEdge(text string, ref func(string) int) Edge {
	for kind, name := range edgeNames {
		if parent, ok := strings.CutPrefix(text, name+":"); ok {
			return Edge{ref(parent), kind}
		}
	}
	return Edge{ref(text), Plain}
}

func parseCondition(t *testing.T, text string, ref func(string) int) Condition {
	t.Helper()
	kind, rest, _ := strings.Cut(text, ":")
	number, rest, _ := strings.Cut(rest, "@")
	name, value, _ := strings.Cut(rest, "=")
	decision, err := strconv.Atoi(number)
	require.NoError(t, err)
	require.Contains(t, conditionNames, kind)
	return Condition{Kind: conditionNames[kind], Ref: ref(name), Decision: decision, Case: value}
}
