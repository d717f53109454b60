package troupe

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README shows code and diagrams that are in the repository: they are
// copied, not written twice.
func TestReadmePage(t *testing.T) {
	page, err := os.ReadFile("README.md")
	require.NoError(t, err)
	text := string(page)
	example := read(t, "example_quickstart_test.go")
	_, example, _ = strings.Cut(example, "\ntype Order struct")
	example, _, _ = strings.Cut(example, "\nfunc pay(")
	text = replaceBlock(t, text, "quickstart", "go", "type Order struct"+example)
	text = replaceBlock(t, text, "machine", "go", machineExample(t))
	text = replaceBlock(t, text, "diagram", "mermaid", read(t, "docs/diagrams/task.mmd"))
	_, tree, _ := strings.Cut(read(t, "docs/diagrams/supervision.txt"), "\n\n")
	text = replaceBlock(t, text, "tree", "", tree)
	checkPage(t, "README.md", text)
	require.LessOrEqual(t, strings.Count(text, "\n"), 200+60, "the README stays short: 200 lines and what is copied")
}

// The guide to a service shows the code of the example.
func TestServicePage(t *testing.T) {
	text := read(t, "docs/service.md")
	_, service, _ := strings.Cut(read(t, "examples/service/http.go"), "\n// newService makes")
	service, _, _ = strings.Cut(service, "\n// place answers")
	text = replaceBlock(t, text, "service", "go", "// newService makes"+service)
	_, stop, _ := strings.Cut(read(t, "examples/service/main.go"), "\n\tserver := ")
	stop, _, _ = strings.Cut(stop, "\n}\n")
	text = replaceBlock(t, text, "stop", "go", strings.ReplaceAll("\tserver := "+stop, "\n\t", "\n")[1:])
	checkPage(t, "docs/service.md", text)
	shown := 0
	for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(text, -1) {
		shown += strings.Count(block[1], "\n")
	}
	require.LessOrEqual(t, shown, 60)
}

// machineExample is the machine that pages show.
func machineExample(t *testing.T) string {
	t.Helper()
	_, code, found := strings.Cut(read(t, "example_machine_test.go"), "\nvar Sales")
	require.True(t, found)
	code, _, found = strings.Cut(code, "\n// A machine decides")
	require.True(t, found)
	return "var Sales" + code
}

// The guide to state machines begins with the same one.
func TestStateMachinesPage(t *testing.T) {
	checkPage(t, "docs/state-machines.md", replaceBlock(t, read(t, "docs/state-machines.md"), "machine", "go", machineExample(t)))
}

// The guide to moving shows the code of its example.
func TestMovingPage(t *testing.T) {
	text := read(t, "docs/moving.md")
	for _, block := range []struct{ name, file, from, to string }{
		{"place", "examples/moving/shop.go", "// Place stores", "\n// choose sends"},
		{"takeback", "examples/moving/shop.go", "// TakeBack cancels", "\n// giveBack does"},
		{"breaker", "examples/moving/breaker.go", "// Breaker is", "\n\tmu "},
	} {
		_, code, found := strings.Cut(read(t, block.file), block.from)
		require.True(t, found)
		code, _, found = strings.Cut(code, block.to)
		require.True(t, found)
		if block.name == "breaker" {
			code += "\n\t…\n}"
		}
		text = replaceBlock(t, text, block.name, "go", block.from+code)
	}
	checkPage(t, "docs/moving.md", text)
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

// replaceBlock replaces the fenced block after the marker of that name.
func replaceBlock(t *testing.T, text, marker, language, content string) string {
	t.Helper()
	block := regexp.MustCompile("(?s)(<!-- " + marker + ":[^\n]*-->\n```" + language + "\n).*?(```\n<!-- /" + marker + " -->)")
	require.True(t, block.MatchString(text), "README has no block %q", marker)
	return block.ReplaceAllStringFunc(text, func(string) string {
		parts := block.FindStringSubmatch(text)
		return parts[1] + strings.TrimRight(content, "\n") + "\n" + parts[2]
	})
}
