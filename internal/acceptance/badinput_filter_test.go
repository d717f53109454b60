package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// A filter that nothing can match is refused: the error names the field and the
// remedy.
func TestBadFiltersAreRefused(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, _ := start(t, single(number))
		many := map[string]string{}
		for i := range 65 {
			many[fmt.Sprint(i)] = ""
		}
		long := strings.Repeat("x", 1025)
		for _, bad := range []struct {
			filter troupe.Filter
			want   string
		}{
			{troupe.Filter{Limit: -1}, "Limit is -1: use 0 or more"},
			{troupe.Filter{Tenant: "a\x00"}, "Tenant: remove the NUL character"},
			{troupe.Filter{Workflow: "a\x00"}, "Workflow: remove the NUL character"},
			{troupe.Filter{Workflow: "\xff"}, "Workflow: use valid UTF-8"},
			{troupe.Filter{Workflow: long}, "Workflow: 1025 bytes; at most 255"},
			{troupe.Filter{Labels: map[string]string{"a\x00": "b"}}, "Labels: remove the NUL character"},
			{troupe.Filter{Labels: map[string]string{"a": "b\x00"}}, "Labels: remove the NUL character"},
			{troupe.Filter{Labels: map[string]string{"a": "\xff"}}, "Labels: use valid UTF-8"},
			{troupe.Filter{Labels: map[string]string{"a": long}}, "Labels: 1025 bytes; at most 1024"},
			{troupe.Filter{Labels: map[string]string{"": "a"}}, "Labels: a label has no name"},
			{troupe.Filter{Labels: many}, "Labels: 65 labels; at most 64"},
			{troupe.Filter{Key: long}, "Key: 1025 bytes; at most 1024"},
			{troupe.Filter{Origin: "a\x00"}, "Origin: remove the NUL character"},
			{troupe.Filter{Class: "\xff"}, "Class: use valid UTF-8"},
			{troupe.Filter{FailedStep: long}, "FailedStep: 1025 bytes; at most 255"},
			{troupe.Filter{Budget: -1}, "Budget is -1ns: use 0 or more"},
			{troupe.Filter{Since: time.Unix(60, 0).UTC(), Until: time.Unix(60, 0).UTC()}, "Since is 1970-01-01T00:01:00Z: use an instant before Until"},
			{troupe.Filter{States: []troupe.State{troupe.StateQueued}}, "States: no run is queued: use pending, running, completed, failed or canceled"},
		} {
			_, err := engine.Runs(t.Context(), bad.filter)
			require.EqualError(t, err, "filter runs: "+bad.want)
		}
		for want, filter := range map[string]troupe.DeadLetterFilter{
			"Tenant: remove the NUL character":   {Tenant: "a\x00"},
			"Workflow: remove the NUL character": {Workflow: "a\x00"},
			"Step: use valid UTF-8":              {Step: "\xff"},
			"Step: 1025 bytes; at most 255":      {Step: long},
			"Limit is -1: use 0 or more":         {Limit: -1},
		} {
			dead := engine.DeadLetters()
			_, err := dead.List(t.Context(), filter)
			require.EqualError(t, err, "filter dead letters: "+want)
			_, err = dead.Count(t.Context(), filter)
			require.EqualError(t, err, "filter dead letters: "+want)
			_, err = dead.Purge(t.Context(), filter)
			require.EqualError(t, err, "filter dead letters: "+want)
			_, err = dead.RequeueAll(t.Context(), filter, troupe.RequeueOptions{})
			require.EqualError(t, err, "filter dead letters: "+want)
		}
	})
}
