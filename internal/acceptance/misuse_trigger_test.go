package acceptance

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// silent is a codec to which every value is no bytes at all.
type silent struct{}

func (silent) Marshal(any) ([]byte, error)     { return nil, nil }
func (silent) Unmarshal(_ []byte, _ any) error { return nil }

func TestB09ACodecMayReturnNoBytes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, single(number), func(c *troupe.Config) { c.Codec = silent{} })
		got, err := handle.Run(t.Context(), "")
		require.NoError(t, err)
		require.Zero(t, got)
	})
}

func TestANilTriggerOptionIsRefused(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, single(number))
		_, err := handle.RunNoWait(t.Context(), "", troupe.Tenant("a"), nil)
		require.ErrorIs(t, err, troupe.ErrRefused)
		require.ErrorContains(t, err, "options[1]")
	})
}

// The labels of a trigger are its own: the caller may change the map while the trigger
// is under way.
func TestLabelsAreTakenWhenTheyAreGiven(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, single(func(ctx context.Context, _ string) (string, error) {
			return troupe.Task(ctx).Labels["color"], nil
		}))
		labels := map[string]string{"color": "red"}
		option := troupe.Labels(labels)
		labels["color"] = "blue"
		got, err := handle.Run(t.Context(), "", option)
		require.NoError(t, err)
		require.Equal(t, "red", got)
	})
}
