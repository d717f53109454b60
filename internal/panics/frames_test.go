package panics_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/panics"
)

// framesOf returns the frames of the panic of f.
func framesOf(f func()) (frames string) {
	defer func() {
		_ = recover()
		frames = panics.Frames()
	}()
	f()
	return ""
}

type shelf struct{ items map[string]int }

func (s *shelf) take(item string) { s.items[item]-- }

func deep(n int) {
	if n == 0 {
		panic("deep")
	}
	deep(n - 1)
}

// Frames are of code that is not the engine's, the innermost first.
func TestFrames(t *testing.T) {
	t.Parallel()
	const here = "github.com/troupe-dev/troupe/internal/panics_test."
	lines := strings.Split(framesOf(func() { (&shelf{}).take("book") }), "\n")
	require.Regexp(t, `^`+here+`\(\*shelf\)\.take \(.*/frames_test\.go:\d+\)$`, lines[0])
	require.Regexp(t, `^`+here+`TestFrames\.func1 \(`, lines[1])
	require.NotContains(t, strings.Join(lines, "\n"), "runtime.")

	called := framesOf(func() { slices.SortFunc([]int{2, 1}, func(int, int) int { panic("no order") }) })
	require.Contains(t, called, here+"TestFrames.func2", "what was called back")
	require.Contains(t, called, "slices.SortFunc", "and by what")

	require.Len(t, strings.Split(framesOf(func() { deep(10_000) }), "\n"), 16)
}
