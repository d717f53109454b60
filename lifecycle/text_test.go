package lifecycle

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// States, kinds of events and reasons are their names wherever a program reads them.
func TestCodesAreText(t *testing.T) {
	t.Parallel()
	for _, s := range States() {
		requireText(t, s, new(State))
	}
	for _, k := range EventKinds() {
		requireText(t, k, new(EventKind))
	}
	for _, r := range DeadReasons() {
		requireText(t, r, new(DeadReason))
	}
	require.Len(t, EventKinds(), 23)
	said, err := json.Marshal([]State{0, Failed})
	require.NoError(t, err)
	require.Equal(t, `["","failed"]`, string(said))
	heard := []State{Queued, Queued}
	require.NoError(t, json.Unmarshal(said, &heard))
	require.Equal(t, []State{0, Failed}, heard)
	value, err := State(0).Value()
	require.NoError(t, err)
	require.Nil(t, value)
	require.NoError(t, heard[1].Scan(nil))
	require.Zero(t, heard[1])
}

// named is a code with its forms.
type named interface {
	code
	MarshalText() ([]byte, error)
}

type reader[C any] interface {
	*C
	UnmarshalText(text []byte) error
	Scan(from any) error
}

func requireText[C named, R reader[C]](t *testing.T, c C, into R) {
	t.Helper()
	said, err := json.Marshal(map[string]C{"is": c})
	require.NoError(t, err)
	require.JSONEq(t, `{"is":"`+c.String()+`"}`, string(said))
	heard := map[string]C{}
	require.NoError(t, json.Unmarshal(said, &heard))
	require.Equal(t, c, heard["is"])
	for _, from := range []any{c.String(), []byte(c.String())} {
		*into = 0
		require.NoError(t, into.Scan(from))
		require.Equal(t, c, *into)
	}
	require.ErrorContains(t, into.UnmarshalText([]byte("gone")), `"gone": use one of `)
	require.ErrorContains(t, into.Scan(int64(1)), "view")
	require.Equal(t, c, *into, "what cannot be read changes nothing")
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", slog.Any("is", c))
	require.Contains(t, log.String(), `"is":"`+c.String()+`"`)
}

// What a later version stores has a name that says so, and can be written.
func TestCodesOfLaterVersionsAreWritten(t *testing.T) {
	t.Parallel()
	said, err := json.Marshal([]any{State(99), EventKind(99), DeadReason(99)})
	require.NoError(t, err)
	require.JSONEq(t, `["state(99)","unknown","reason(99)"]`, string(said))
	var kind EventKind
	require.Error(t, kind.UnmarshalText([]byte("unknown")))
}

// A kind that has a name is one that can be read.
func TestEachKindIsListed(t *testing.T) {
	t.Parallel()
	for code := range 256 {
		k := EventKind(code)
		require.Equal(t, k.String() != unknownKind, slices.Contains(EventKinds(), k), "kind %d", code)
	}
}
