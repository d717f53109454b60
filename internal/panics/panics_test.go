package panics_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/panics"
)

type endless struct{}

func (endless) String() string { panic(endless{}) }

type once struct{}

func (once) String() string { panic("no text") }

func TestText(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]any{
		"no disk": errors.New("no disk"),
		"4":       4,
		"a value of panics_test.endless, whose text panics": endless{},
		"%!v(PANIC=String method: no text)":                 once{},
	} {
		require.Equal(t, want, panics.Text(value))
	}
}
