package main

import (
	"bytes"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/demo"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/load"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// TestMain lets the test binary be the demo, the bench, a pod of either, and orders, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"demo", demo.PodCommand, "bench", load.PodCommand, "orders"}, os.Args[1]) {
		_ = os.Unsetenv(pgtest.EnvFull) // of the tests, and no setting of the command
		main()
	}
	pgtest.Main(m)
}

// call runs a command line in an environment of its own.
func call(environ []string, args ...string) (code int, out, problem string) {
	var stdout, stderr bytes.Buffer
	code = run(args, world{environ: environ, in: strings.NewReader(""), out: &stdout, err: &stderr})
	return code, stdout.String(), stderr.String()
}

// B38: a call that cannot be meant ends with code 2 and one line, in which no
// password is.
func TestB38WrongCallsExitWithTwoAndOneLine(t *testing.T) {
	t.Parallel()
	const secret, unreachable = "geheim", "TROUPE_DATABASE_URL=postgres://127.0.0.1:1/b" // a command that connects fails with another code
	for name, c := range map[string]struct {
		environ []string
		args    []string
		want    string
	}{
		"unknown command":   {nil, []string{"dmeo"}, `troupe has no command "dmeo": did you mean demo?`},
		"unknown below":     {nil, []string{"migrate", "down"}, `troupe migrate has no command "down": there are status, up`},
		"unknown flag":      {nil, []string{"demo", "--pakages", "3"}, "unknown flag: --pakages: troupe demo --help lists the flags"},
		"argument":          {nil, []string{"version", "please"}, `troupe version takes no argument, got "please"`},
		"kind of role":      {nil, []string{"grant", "--role", "owner", "--to", "x"}, `--role "owner": there is no such kind: use reader`},
		"no role":           {nil, []string{"grant"}, `--to "": it is no name of a role`},
		"no database there": {nil, []string{"grant", "--to", "x", "--apply"}, "set TROUPE_DATABASE_URL or --database-url"},
		"bad number":        {nil, []string{"demo", "--packages", "few"}, `invalid argument "few"`},
		"negative":          {nil, []string{"demo", "--packages", "-1"}, "use 0 for all"},
		"unknown variable":  {[]string{"TROUPE_LEESE=3s"}, []string{"demo"}, "unknown variable TROUPE_LEESE: did you mean TROUPE_LEASE?"},
		"bad variable":      {[]string{"TROUPE_SLOTS=x", "TROUPE_PULSE=1"}, []string{"migrate", "up"}, "TROUPE_PULSE"},
		"no database":       {nil, []string{"migrate", "status"}, "set TROUPE_DATABASE_URL or --database-url"},
		"two databases":     {[]string{"TROUPE_DATABASE_URL=postgres://h/a"}, []string{"migrate", "up", "--database-url", "postgres://h/b"}, "both set and differ"},
		"two schemas":       {[]string{"TROUPE_SCHEMA=a"}, []string{"migrate", "up", "--database-url", "postgres://h/b", "--schema", "b"}, "both set and differ"},
		"bad schema":        {nil, []string{"migrate", "up", "--database-url", "postgres://h/b", "--schema", "A b"}, "is not a plain name"},
		"bad port":          {nil, []string{"migrate", "up", "--database-url", "postgres://u:" + secret + "@h:port/b"}, "postgres://u:xxxxx@"},
		"bad scheme":        {nil, []string{"migrate", "up", "--database-url", "mysql://u:" + secret + "@h/b"}, "use the form postgres://"},
		"bad key and value": {nil, []string{"migrate", "up", "--database-url", "host=h port=x password=" + secret}, "cannot parse"},
		"JDBC in a flag":    {nil, []string{"migrate", "up", "--database-url", "jdbc:postgresql://h/d?user=u&password=" + secret}, "--database-url: it is a JDBC URL"},
		"JDBC of a demo":    {[]string{"TROUPE_DATABASE_URL=jdbc:postgresql://h/d?user=u&password=" + secret}, []string{"demo"}, "TROUPE_DATABASE_URL: it is a JDBC URL"},
		"JDBC of a bench":   {[]string{"TROUPE_DATABASE_URL=jdbc:postgresql://u:" + secret + "@h/d"}, []string{"bench"}, "use the form postgres://user@host:5432/database"},
		"bad schema there":  {[]string{"TROUPE_DATABASE_URL=postgres://h/b", "TROUPE_SCHEMA=A b"}, []string{"doctor"}, `TROUPE_SCHEMA "A b" is not a plain name`},
		"help of nothing":   {nil, []string{"help", "nosuch"}, `troupe has no command "nosuch": there are bench, completion, dead-letters, demo, doctor, explain, grant, migrate, orders, pods, queues, runs, sim, version, workflows`},
		"help of a mistake": {nil, []string{"help", "dmeo"}, "did you mean demo?"},
		"help below":        {nil, []string{"help", "migrate", "down"}, `troupe migrate has no command "down": there are status, up`},
		"address to listen": {[]string{unreachable}, []string{"orders", "--listen", "8080"}, `--listen is "8080": use the form :8080 or 127.0.0.1:8080, with a port from 0 to 65535`},
		"port to listen":    {[]string{unreachable}, []string{"orders", "--listen", ":99999"}, `--listen is ":99999"`},
		"no port to listen": {[]string{unreachable}, []string{"orders", "--listen", "h:"}, `--listen is "h:"`},
		"host to listen":    {[]string{unreachable}, []string{"orders", "--listen", "a b:80"}, `--listen is "a b:80"`},
		"bad direct URL":    {[]string{unreachable, "TROUPE_DIRECT_URL=http://u:" + secret + "@h"}, []string{"orders", "--listen", "127.0.0.1:0"}, "TROUPE_DIRECT_URL: it is a URL of http"},
		"at in password":    {nil, []string{"migrate", "up", "--database-url", "postgres://u:a@" + secret + "@h:port/b"}, "write an @ in a name or a password as %40"},
		"no scheme":         {[]string{"TROUPE_DATABASE_URL=bob:" + secret + "@127.0.0.1/x?sslmode=disable"}, []string{"doctor"}, "TROUPE_DATABASE_URL: it is neither a URL nor"},
		"half a scheme":     {nil, []string{"migrate", "up", "--database-url", "postgres//bob:" + secret + "@h/d?sslmode=disable"}, "it is neither a URL nor"},
		"a slash too few":   {[]string{unreachable, "TROUPE_DIRECT_URL=postgres:/bob:" + secret + "@h/d?sslmode=disable"}, []string{"doctor"}, "TROUPE_DIRECT_URL: it is neither a URL nor"},
		"quotes":            {[]string{"TROUPE_DATABASE_URL='postgres://bob:" + secret + "@h/d?sslmode=disable'"}, []string{"doctor"}, "remove the quotes"},
		"URL as a value":    {[]string{"TROUPE_DATABASE_URL=url=postgres://bob:" + secret + "@h/d"}, []string{"doctor"}, "it has a URL as the value of url"},
		"at in host":        {[]string{"TROUPE_DATABASE_URL=postgres://bob:a@" + secret + "@127.0.0.1/x"}, []string{"doctor"}, "as %40"},
	} {
		code, out, problem := call(c.environ, c.args...)
		require.Equal(t, exitUsage, code, "%s: %s", name, problem)
		require.Empty(t, out, name)
		require.Contains(t, problem, c.want, name)
		require.NotContains(t, problem, secret, name)
		require.True(t, strings.HasPrefix(problem, "troupe: "), problem)
		require.Equal(t, 1, strings.Count(problem, "\n"), problem)
	}
}

// Whatever has a target checks the whole environment before it connects: a pod
// with these values would not start.
func TestB38ValuesOfTheEnvironmentAreChecked(t *testing.T) {
	t.Parallel()
	const run = "0190c2f3-7a1b-7c3d-8e4f-0123456789ab"
	for _, args := range [][]string{
		{"doctor"},
		{"explain", run},
		{"runs", "list"},
		{"runs", "tail", run},
		{"runs", "cancel", run},
		{"runs", "requeue", run},
		{"runs", "trigger", "orders", "--input", "null"},
		{"runs", "signal", run, "approved"},
		{"workflows", "list"},
		{"queues"},
		{"pods"},
		{"grant", "--to", "x"},
		{"migrate", "status"},
		{"migrate", "up"},
		{"orders", "--listen", "127.0.0.1:0"},
		{"dead-letters", "count"},
		{"bench"},
		{"bench", "figures"},
		{"demo"},
	} {
		for entry, want := range map[string]string{
			"TROUPE_SLOTS=-1":                   "troupe: TROUPE_SLOTS is -1: use 1 to 10000\n",
			"TROUPE_PULSE=1m":                   "s is less than three times TROUPE_PULSE (1m0s): leave room for two lost renewals\n",
			"TROUPE_DIRECT_URL=jdbc:postgresql": "troupe: TROUPE_DIRECT_URL: ",
		} {
			code, out, problem := call([]string{"TROUPE_DATABASE_URL=postgres://127.0.0.1:1/b", entry}, args...)
			require.Equal(t, exitUsage, code, "%v %s: %s", args, entry, problem)
			require.Empty(t, out)
			require.Contains(t, problem, want)
			require.Equal(t, 1, strings.Count(problem, "\n"), problem)
		}
	}
}

func TestHelpShowsACommand(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"help", "migrate", "up"}, {"migrate", "up", "--help"}} {
		code, out, problem := call(nil, args...)
		require.Zero(t, code, problem)
		require.Contains(t, out, "troupe migrate up [flags]")
		require.Contains(t, out, "help for up")
	}
}

func TestAServerThatIsNotThereIsOneLine(t *testing.T) {
	t.Parallel()
	code, _, problem := call([]string{"TROUPE_DATABASE_URL=postgres://u:geheim@127.0.0.1:1/b"}, "migrate", "status")
	require.Equal(t, exitFailed, code)
	require.Equal(t, 1, strings.Count(problem, "\n"), problem)
	require.NotContains(t, problem, "geheim")
}

func TestOneLineMasksPasswords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres://u:p@h/d refused":       "postgres://u:xxxxx@h/d refused",
		"postgres://u:p@q:r@h/d":           "postgres://u:xxxxx@h/d",
		"postgres://u@h/d":                 "postgres://u@h/d",
		"host=h password=p user=u":         "host=h password=xxxxx user=u",
		`password = 'p \' q' user=u`:       "password = xxxxx user=u",
		"postgres://h/d?user=u&password=p": "postgres://h/d?user=u&password=xxxxx",
		"one\n\ttwo\r\nthree":              "one; two; three",
		"one:\n\ttwo\n\tthree":             "one: two; three",
	} {
		require.Equal(t, want, oneLine(text))
	}
}

func TestHelpListsTheCommands(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--help"}, {"help"}} {
		code, out, problem := call(nil, args...)
		require.Zero(t, code, problem)
		for _, name := range []string{"bench ", "demo ", "migrate ", "version "} {
			require.Contains(t, out, "\n  "+name)
		}
		require.NotContains(t, out, demo.PodCommand)
		require.NotContains(t, out, load.PodCommand)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, spelling := range []string{"version", "--version"} {
		code, out, _ := call(nil, spelling)
		require.Zero(t, code)
		require.Regexp(t, `^troupe \S+.*, go1\S+ \w+/\w+\n$`, out)
	}
	line := versionLine(&debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}},
	})
	require.Contains(t, line, "troupe v1.2.3 0123456789ab, changed, go1")
	require.Contains(t, versionLine(nil), "troupe (devel), go1")
}

func TestMigrateUpAndStatus(t *testing.T) {
	t.Parallel()
	environ := []string{"TROUPE_DATABASE_URL=" + pgtest.Database(t), "TROUPE_SCHEMA=other"}
	code, out, problem := call(environ, "migrate", "status")
	require.Zero(t, code, problem)
	require.Contains(t, out, "pending  0001_")
	require.Regexp(t, `schema other is at version 0 of \d+: run troupe migrate up\n$`, out)

	code, out, problem = call(environ, "migrate", "up")
	require.Zero(t, code, problem)
	require.Contains(t, out, "applied  0001_")
	require.NotContains(t, out, "pending")

	for _, again := range []string{"up", "status"} {
		code, out, problem = call(environ, "migrate", again)
		require.Zero(t, code, problem)
		require.Regexp(t, `^schema other is at version (\d+) of (\d+)\n$`, out)
	}
}

func TestTheCollectorIsRelaxedUnlessTheEnvironmentSetsIt(t *testing.T) { //nolint:paralleltest // one collector for all
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	relaxCollector([]string{"HOME=/", "GOGC=80"})
	require.Equal(t, 100, debug.SetGCPercent(100))
	relaxCollector([]string{"HOME=/"})
	require.Equal(t, gcPercent, debug.SetGCPercent(100))
}

// TestHelpOfTheCommandsThatOperate has what --help prints, as people read it.
func TestHelpOfTheCommandsThatOperate(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, args := range [][]string{
		{"runs"},
		{"runs", "list"},
		{"runs", "children"},
		{"runs", "elements"},
		{"runs", "show"},
		{"runs", "events"},
		{"runs", "tail"},
		{"runs", "cancel"},
		{"runs", "requeue"},
		{"runs", "trigger"},
		{"runs", "signal"},
		{"runs", "state"},
		{"runs", "replay"},
		{"workflows"},
		{"workflows", "list"},
		{"workflows", "show"},
		{"queues"},
		{"pods"},
		{"explain"},
		{"completion"},
	} {
		code, out, problem := call(nil, append(args, "--help")...)
		require.Zero(t, code, problem)
		text.WriteString("$ troupe " + strings.Join(args, " ") + " --help\n" + out + "\n")
	}
	const path = "testdata/operate_help.txt"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text.String(), "%s is out of date: go test ./cmd/troupe -run HelpOf -update", path)
}
