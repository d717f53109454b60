package chaos

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
)

var (
	namedCode = regexp.MustCompile(`\b(kind|state) (=|<>|<|in) ('[a-z_]+'|\('[a-z_]+'(?:, '[a-z_]+')*\))`)
	codeName  = regexp.MustCompile(`'[a-z_]+'`)
)

// coded returns a query with the codes of what it names: events, as in kind =
// 'lost', and states, as in state < 'completed'.
func coded(query string) string {
	return namedCode.ReplaceAllStringFunc(query, func(clause string) string {
		return codeName.ReplaceAllStringFunc(clause, func(quoted string) string {
			name := strings.Trim(quoted, "'")
			if strings.HasPrefix(clause, "kind") {
				return eventCode(name)
			}
			return stateCode(name)
		})
	})
}

func eventCode(name string) string {
	for kind := range lifecycle.EventKind(255) {
		if kind.String() == name {
			return fmt.Sprint(uint8(kind))
		}
	}
	panic("no event is called " + name)
}

func stateCode(name string) string {
	for _, state := range lifecycle.States() {
		if state.String() == name {
			return fmt.Sprint(uint8(state))
		}
	}
	panic("no state is called " + name)
}

func TestQueriesAreCoded(t *testing.T) {
	t.Parallel()
	require.Equal(t, "e.kind = 7 and r.state < 10 and state in (10, 12) and kind > 1 and name = 'lost'",
		coded("e.kind = 'lost' and r.state < 'completed' and state in ('completed', 'skipped') and kind > 1 and name = 'lost'"))
	require.Panics(t, func() { coded("kind = 'lots'") })
	require.Panics(t, func() { coded("state = 'lost'") })
}
