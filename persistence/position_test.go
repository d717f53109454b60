package persistence_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

func TestAPositionCoversWhatWasSeen(t *testing.T) {
	t.Parallel()
	none := persistence.EventPosition(nil)
	first := none.After([]lifecycle.Event{{Step: lifecycle.RunStep, N: 2}, {Step: 2, N: 3}, {Step: 2, N: 1}})
	require.Equal(t, persistence.EventPosition{2, 0, 0, 3}, first)
	require.Empty(t, none)
	second := first.After([]lifecycle.Event{{Step: 0, N: 1}})
	require.Equal(t, persistence.EventPosition{2, 0, 0, 3}, first, "positions are values")
	for _, c := range []struct {
		of      lifecycle.Event
		covered bool
	}{
		{lifecycle.Event{Step: lifecycle.RunStep, N: 2}, true},
		{lifecycle.Event{Step: lifecycle.RunStep, N: 3}, false},
		{lifecycle.Event{Step: 0, N: 1}, true},
		{lifecycle.Event{Step: 1, N: 1}, false},
		{lifecycle.Event{Step: 3, N: 1}, false},
	} {
		require.Equal(t, c.covered, second.Covers(&c.of), "%+v", c.of)
	}
}

func TestTheTextOfAPosition(t *testing.T) {
	t.Parallel()
	most := make(persistence.EventPosition, workflow.StepsMax+2)
	for text, want := range map[string]persistence.EventPosition{
		"":                        nil,
		"3":                       {3},
		"2.0x2.3":                 {2, 0, 0, 3},
		"3x4":                     {3, 3, 3, 3},
		"1.2.3":                   {1, 2, 3},
		"0x100002":                most,
		"7.0.9223372036854775807": {7, 0, 1<<63 - 1},
	} {
		require.Equal(t, text, want.String())
		got, err := persistence.ParseEventPosition(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	var back struct{ Seen persistence.EventPosition }
	text, err := json.Marshal(struct{ Seen persistence.EventPosition }{persistence.EventPosition{3, 3}})
	require.NoError(t, err)
	require.JSONEq(t, `{"Seen":"3x2"}`, string(text))
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, persistence.EventPosition{3, 3}, back.Seen)
}

func TestATextThatIsNoPosition(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		".", "x", "3.", "-1", "3x0", "3x-1", "3x", "x3", "0x100003", "1.0x100002", "a", "1,2", "3x3x3", "9223372036854775808", "0x99999999999999999999",
	} {
		_, err := persistence.ParseEventPosition(text)
		require.ErrorContains(t, err, "is no position in events: want one as returned", text)
	}
	require.Error(t, json.Unmarshal([]byte(`"x"`), new(persistence.EventPosition)))
}
