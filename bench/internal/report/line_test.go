package report_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/bench/internal/report"
)

// add adds the runs of one peer in one setting.
func add(c *report.Collection, name, peer, setting string, role report.Role, higher bool, values ...float64) {
	for _, v := range values {
		c.Add(report.Sample{
			Key: report.Key{Case: name, Peer: peer, Setting: setting}, Says: "knobs of " + setting,
			Role: role, Value: v, Unit: "u", Higher: higher,
		})
	}
}

func find(t *testing.T, lines []report.Line, name, peer, setting string) report.Line {
	t.Helper()
	for _, l := range lines {
		if l.Case == name && l.Peer == peer && strings.HasPrefix(l.Setting, setting+":") {
			return l
		}
	}
	require.Fail(t, "no such line", "%s %s %s", name, peer, setting)
	return report.Line{}
}

func TestRatiosOfThroughput(t *testing.T) {
	t.Parallel()
	var c report.Collection
	add(&c, "drain", "troupe", "default", report.Ours, true, 900, 1000, 5000)
	add(&c, "drain", "river", "default", report.Peer, true, 100)
	add(&c, "drain", "river", "fast", report.Peer, true, 500)
	add(&c, "drain", "dbos", "default", report.Peer, true, 50)
	add(&c, "drain", "limit-store", "default", report.Bound, true, 9999)
	add(&c, "drain", "limit-sql", "default", report.Limit, true, 2000)

	lines := c.Lines()

	ours := find(t, lines, "drain", "troupe", "default")
	require.InDelta(t, 1000, ours.Value, 0)
	require.InDelta(t, 900, ours.Min, 0)
	require.InDelta(t, 5000, ours.Max, 0)
	require.Equal(t, 3, ours.Runs)
	require.InDelta(t, 2, *ours.RatioToBestPeer, 0, "the best peer in its best setting: not ours, not a limit")
	require.InDelta(t, 0.5, *ours.RatioToLimit, 0, "limit-sql, whatever limit-store does")
	require.InDelta(t, 0.2, *find(t, lines, "drain", "river", "default").RatioToBestPeer, 0)
	require.InDelta(t, 1, *find(t, lines, "drain", "river", "fast").RatioToBestPeer, 0)
}

func TestRatiosOfLatency(t *testing.T) {
	t.Parallel()
	var c report.Collection
	add(&c, "latency.p50", "troupe", "default", report.Ours, false, 1)
	add(&c, "latency.p50", "river", "fast", report.Peer, false, 4)
	add(&c, "latency.p50", "dbos", "fast", report.Peer, false, 2)

	ours := find(t, c.Lines(), "latency.p50", "troupe", "default")

	require.InDelta(t, 0.5, *ours.RatioToBestPeer, 0, "the best is the lowest")
	require.Nil(t, ours.RatioToLimit)
}

func TestRatiosStayInTheirCase(t *testing.T) {
	t.Parallel()
	var c report.Collection
	add(&c, "e2e", "river", "fast", report.Peer, true, 10)
	add(&c, "orders", "troupe", "fast", report.Ours, true, 10)
	add(&c, "idle.statements", "river", "default", report.Peer, false, 0)
	add(&c, "idle.statements", "troupe", "default", report.Ours, false, 1)

	lines := c.Lines()

	require.Nil(t, find(t, lines, "orders", "troupe", "fast").RatioToBestPeer)
	require.Nil(t, find(t, lines, "idle.statements", "troupe", "default").RatioToBestPeer, "nothing is divided by zero")
}

func TestJSONHasExactlyTheKeys(t *testing.T) {
	t.Parallel()
	var c report.Collection
	add(&c, "drain", "troupe", "fast", report.Ours, true, 1, 2, 3)
	add(&c, "drain", "river", "fast", report.Peer, true, 4)
	var out bytes.Buffer

	require.NoError(t, report.WriteJSON(&out, c.Lines()))

	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, rows, 2)
	for _, row := range rows {
		var keys map[string]any
		require.NoError(t, json.Unmarshal([]byte(row), &keys))
		for _, key := range []string{
			"case", "peer", "setting", "value", "unit", "ratio_to_best_peer", "ratio_to_limit", "runs", "min", "max",
		} {
			require.Contains(t, keys, key)
		}
		require.Len(t, keys, 10)
	}
	require.JSONEq(t, `{"case":"drain","peer":"troupe","setting":"fast: knobs of fast","value":2,"unit":"u",
		"ratio_to_best_peer":0.5,"ratio_to_limit":null,"runs":3,"min":1,"max":3}`, rows[0])
}

func TestTableNamesEachSettingOnce(t *testing.T) {
	t.Parallel()
	var c report.Collection
	add(&c, "drain", "troupe", "fast", report.Ours, true, 123456)
	add(&c, "drain.wal", "troupe", "fast", report.Ours, false, 12.345)
	var out bytes.Buffer

	require.NoError(t, report.WriteTable(&out, "GOGC=100", c.Lines()))

	require.Equal(t, 1, strings.Count(out.String(), "knobs of fast"))
	require.Contains(t, out.String(), "123456")
	require.Contains(t, out.String(), "12.3 ")
}

func TestTableShowsCPUBesideTheFirstFigure(t *testing.T) {
	t.Parallel()
	var c report.Collection
	for setting, microseconds := range map[string]float64{"fast": 26, "wide": 27} {
		add(&c, "drain", "troupe", setting, report.Ours, true, 123456)
		add(&c, "drain.wal", "troupe", setting, report.Ours, false, 500)
		add(&c, "drain.cpu-client", "troupe", setting, report.Ours, false, microseconds)
		add(&c, "drain.cpu-server", "troupe", setting, report.Ours, false, microseconds+10)
	}
	var out bytes.Buffer

	require.NoError(t, report.WriteTable(&out, "GOGC=100", c.Lines()))

	text, _, _ := strings.Cut(out.String(), "\nsettings\n")
	require.True(t, strings.HasPrefix(text, "GOGC=100\n\ncase "), text)
	require.NotContains(t, text, "cpu-")
	require.Regexp(t, `(?m)^drain +troupe +fast +123456 +u +more +- +- +26\.0 +36\.0 +1 `, text)
	require.Regexp(t, `(?m)^drain +troupe +wide +123456 +u +more +- +- +27\.0 +37\.0 +1 `, text)
	require.Regexp(t, `(?m)^drain\.wal +troupe +fast +500 +u +less +- +- +- +- +1 `, text)
}
