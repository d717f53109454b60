package contest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/bench/internal/cases"
	"github.com/troupe-dev/troupe/bench/internal/peer"
	"github.com/troupe-dev/troupe/bench/internal/roster"
)

func cellNames(r round) []string {
	var names []string
	for _, c := range r.cells {
		names = append(names, c.entry.Name+" "+c.setting.Name)
	}
	return names
}

func TestFullPlanHasEveryCaseAndBothSettings(t *testing.T) {
	t.Parallel()
	rounds := plan(Options{Repeats: 3}, roster.All())
	require.Len(t, rounds, len(cases.All()))
	for _, r := range rounds {
		if r.of.Name == "drain" {
			require.Equal(t, []string{
				"troupe default", "troupe fast", "troupe wide", "river default", "river fast", "dbos default", "dbos fast",
				"go-workflows default", "go-workflows fast", "limit-store default", "limit-sql default",
			}, cellNames(r))
		}
	}
}

func TestQuickPlanLeavesOutSlowDefaultsOfOthers(t *testing.T) {
	t.Parallel()
	for _, r := range plan(Options{Quick: true, Repeats: 1}, roster.All()) {
		require.False(t, r.of.Full, r.of.Name)
		switch r.of.Name {
		case "e2e", "drain":
			require.Equal(t, []string{
				"troupe default", "troupe fast", "river fast", "dbos fast", "go-workflows fast", "limit-sql default",
			}, cellNames(r))
		case "chain-16":
			require.Equal(t, []string{"troupe fast", "river fast", "dbos fast", "limit-sql default"}, cellNames(r))
		case "start-1000":
			require.Equal(t, []string{"troupe default", "river lowlat", "dbos direct", "dbos lowlat", "go-workflows lowlat"}, cellNames(r))
		case "idle":
			require.Equal(t, []string{"troupe default", "river default", "dbos default", "go-workflows default"}, cellNames(r))
		}
	}
}

func TestWhatIsNamedIsMeasured(t *testing.T) {
	t.Parallel()
	o := Options{Quick: true, Repeats: 1, Cases: []string{"backlog-1m"}, Peers: []string{"limit-store"}}
	rounds := plan(o, roster.All())
	require.Len(t, rounds, 1)
	require.Equal(t, []string{"limit-store default"}, cellNames(rounds[0]))
}

func TestEverySettingIsUsed(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, r := range plan(Options{Repeats: 1}, roster.All()) {
		for _, name := range cellNames(r) {
			used[name] = true
		}
	}
	for _, e := range roster.All() {
		for _, s := range e.Settings {
			require.True(t, used[e.Name+" "+s.Name], "%s %s is measured nowhere", e.Name, s.Name)
			require.Positive(t, s.Rate)
			require.Positive(t, s.Runs)
		}
	}
}

func TestValidateNamesWhatIsUnknown(t *testing.T) {
	t.Parallel()
	err := Options{Cases: []string{"drain", "drian"}, Peers: []string{"unknown"}}.Validate([]peer.Entry{{Name: "known"}})
	require.ErrorContains(t, err, `"drian"`)
	require.ErrorContains(t, err, `no peer is called "unknown": there are known`)
	require.ErrorContains(t, err, "--repeats")
	require.ErrorContains(t, err, "--gogc")
	require.NoError(t, Options{Cases: []string{"drain"}, Repeats: 1, GOGC: 100}.Validate(nil))
}
