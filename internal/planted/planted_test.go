package planted_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/planted"
)

// The engine moves; the table must move with it.
func TestEveryPlantHasItsPlace(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, p := range planted.All() {
		require.False(t, names[p.Name], "%s stands twice", p.Name)
		names[p.Name] = true
		require.NotEmpty(t, p.What, p.Name)
		require.Positive(t, p.Seeds, p.Name)
	}
	require.GreaterOrEqual(t, len(names), 15)
	files, err := planted.Apply("../..", planted.All())
	require.NoError(t, err)
	for name, text := range files {
		_, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		require.NoError(t, err, name)
	}
}

func TestTheGuideListsEveryPlant(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/simulation.md")
	require.NoError(t, err)
	for _, p := range planted.All() {
		require.Regexp(t, fmt.Sprintf("(?m)^\\| `%s` \\| %s \\| \\d+ \\| %d \\|$", p.Name, regexp.QuoteMeta(p.What), p.Seeds), string(guide))
	}
	require.Contains(t, string(guide), fmt.Sprintf("a table of %d real mistakes", len(planted.All())))
}

func TestAPlantWithoutItsPlaceIsNamed(t *testing.T) {
	t.Parallel()
	plant := planted.Plant{Name: "lost", File: "lifecycle/decide.go", Old: "no such text", New: `planted.On("lost")`}
	_, err := planted.Apply("../..", []planted.Plant{plant})
	require.ErrorContains(t, err, "plant lost: its text stands 0 times in lifecycle/decide.go")
}

func TestThisBinaryHasNonePlanted(t *testing.T) {
	t.Parallel()
	require.NoError(t, planted.Choose(""))
	require.ErrorIs(t, planted.Choose("unfenced-record"), planted.ErrNotPlanted)
}
