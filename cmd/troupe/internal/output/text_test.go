package output_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

func TestB23TextsAreEscaped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain ünïcode ✓": "plain ünïcode ✓",
		"a\x1b[2Jb":       `a\x1b[2Jb`,
		"line\r\nbreak":   `line\r\nbreak`,
		"\u202eevil":      `\u202eevil`,
		"bad\xffutf8":     `bad\xffutf8`,
		"zero\u200bwidth": `zero\u200bwidth`,
		"a\u061cb\ufeffc": `a\u061cb\ufeffc`,
		"fill\u3164er":    `fill\u3164er`,
		"tag\U000e0041":   `tag\U000e0041`,
		"c1\u009b31m":     `c1\u009b31m`,
	} {
		require.Equal(t, want, output.Plain(text))
		require.Equal(t, want, output.Plain(output.Plain(text)), "twice")
	}
}

func TestB23JSONShowsWhatIsUnseen(t *testing.T) {
	t.Parallel()
	for unseen, want := range map[string]string{
		"\u061c": `\u061c`, "\u200b": `\u200b`, "\u200d": `\u200d`, "\ufeff": `\ufeff`, "\u00ad": `\u00ad`, "\u2060": `\u2060`, "\u2028": `\u2028`,
		"\u3164": `\u3164`, "\U000e0041": `\udb40\udc41`,
	} {
		require.Equal(t, "a"+want+"b", output.Visible("a"+unseen+"b"))
		require.NotContains(t, output.Plain(unseen), unseen)
		for _, show := range []func(*strings.Builder) error{
			func(out *strings.Builder) error { return output.Document(out, []string{unseen}) },
			func(out *strings.Builder) error { return output.Line(out, []string{unseen}) },
			func(out *strings.Builder) error { return output.Lines(out, [][]string{{unseen}}) },
		} {
			var out strings.Builder
			require.NoError(t, show(&out))
			require.Contains(t, out.String(), `"`+want+`"`)
			var same []string
			require.NoError(t, json.Unmarshal([]byte(out.String()), &same))
			require.Equal(t, []string{unseen}, same)
		}
	}
	require.Equal(t, "ünïcode ✓ ❤️ 漢字", output.Visible("ünïcode ✓ ❤️ 漢字"))
}

func TestOneAndMany(t *testing.T) {
	t.Parallel()
	for n, want := range []string{"0 runs have", "1 run has", "2 runs have"} {
		require.Equal(t, want, output.Several(n, "run has", "runs have"))
	}
	require.Equal(t, "1 step, 2 steps", output.Count(1, "step")+", "+output.Count(2, "step"))
	require.Equal(t, "once, twice, 3 times", output.Times(1)+", "+output.Times(2)+", "+output.Times(3))
}

func TestNothingIsNull(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, output.Line(&out, []any{
		output.Instant(time.Time{}), output.Optional(""), output.Payload(nil), output.Payload([]byte(`{"a":1}`)), output.Payload([]byte("x")),
		output.Instant(time.Unix(0, 0)), output.Optional("a"),
	}))
	require.Equal(t, `[null,null,null,{"a":1},"eA==","1970-01-01T00:00:00Z","a"]`+"\n", out.String())
}

func TestTablesAndFieldsAlign(t *testing.T) {
	t.Parallel()
	table := output.NewTable("RUN", "WHY")
	table.Add("1", "it \x1b[31mbroke\nbadly")
	table.Add("long id", "")
	var out strings.Builder
	require.NoError(t, table.Write(&out))
	require.Equal(t, "RUN      WHY\n1        it \\x1b[31mbroke\\nbadly\nlong id  -\n", out.String())

	var fields output.Fields
	fields.Add("run", "%d", 1)
	fields.Add("tenant", "%s", "a\tb")
	fields.AddText("error", "one\ntwo\x07")
	out.Reset()
	require.NoError(t, fields.Write(&out))
	require.Equal(t, "run         1\ntenant      a\\tb\nerror\n  one\n  two\\a\n", out.String())
}
