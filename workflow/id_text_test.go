package workflow

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Programs that read JSON, logs or rows get the text that people type.
func TestRunIDIsText(t *testing.T) {
	t.Parallel()
	id := NewRunID(time.UnixMilli(1721987654321), [10]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	const text = "0190ee76-62b1-7102-8304-05060708090a"
	type form struct {
		Run   RunID         `json:"run"`
		None  RunID         `json:"none,omitzero"`
		ByRun map[RunID]int `json:"by_run"`
	}
	said, err := json.Marshal(form{Run: id, ByRun: map[RunID]int{id: 1}})
	require.NoError(t, err)
	require.JSONEq(t, `{"run":"`+text+`","by_run":{"`+text+`":1}}`, string(said))
	var heard form
	require.NoError(t, json.Unmarshal(said, &heard))
	require.Equal(t, form{Run: id, ByRun: map[RunID]int{id: 1}}, heard)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"run":"7"}`), &heard), "want a UUID")
	require.Equal(t, id, heard.Run, "what cannot be read changes nothing")

	var plain, object bytes.Buffer
	slog.New(slog.NewTextHandler(&plain, nil)).Info("x", slog.Any("run", id))
	slog.New(slog.NewJSONHandler(&object, nil)).Info("x", slog.Any("run", id))
	require.Contains(t, plain.String(), "run="+text)
	require.Contains(t, object.String(), `"run":"`+text+`"`)
}

func TestRunIDIsAUUIDForDrivers(t *testing.T) {
	t.Parallel()
	id := NewRunID(time.UnixMilli(1), [10]byte{})
	value, err := id.Value()
	require.NoError(t, err)
	require.Equal(t, id.String(), value)
	value, err = RunID{}.Value()
	require.NoError(t, err)
	require.Nil(t, value, "no run is null")
	for _, from := range []any{id.String(), []byte(id.String()), id[:], [16]byte(id)} {
		var got RunID
		require.NoError(t, got.Scan(from), "%T", from)
		require.Equal(t, id, got, "%T", from)
	}
	got := id
	for _, from := range []any{7, "7", []byte("7")} {
		require.Error(t, got.Scan(from), "%T", from)
		require.Equal(t, id, got)
	}
	require.NoError(t, got.Scan(nil))
	require.Zero(t, got)
}
