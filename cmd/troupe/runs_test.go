package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/explain"
)

// What the commands print for people.
func TestRunsAsText(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.golden(
		"runs.txt",
		s.does("runs", "list"),
		s.does("runs", "list", "--workflow", "orders", "--state", "failed,canceled", "--tenant", "acme"),
		s.does("runs", "list", "--state", "canceled"),
		s.does("runs", "show", s.completed.String()),
		s.does("runs", "show", s.failed.String(), "--tenant", "acme"),
		s.does("runs", "show", s.sleeping.String()),
		s.does("runs", "events", s.failed.String()),
		s.does("explain", s.completed.String()),
		s.does("explain", s.failed.String()),
		s.does("workflows", "list"),
		s.does("workflows", "show", "orders"),
		s.does("queues"),
		s.does("pods"),
	)
	require.Equal(t, s.does("runs", "events", s.completed.String()), s.does("runs", "tail", s.completed.String()))
}

// What they print for programs: one object on one line, or one on each. Runs and events
// have the form of the library's types.
func TestRunsAsJSON(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.golden(
		"workflows.jsonl",
		s.does("workflows", "list", "--json"),
		s.does("workflows", "list", "--jsonl"),
		s.does("workflows", "show", "orders", "--json"),
		s.does("queues", "--json"),
		s.does("pods", "--json"),
	)
	var failed troupe.RunStatus
	s.decodes(&failed, "runs", "show", s.failed.String(), "--json")
	require.Equal(t, s.failed, failed.ID)
	require.Equal(t, troupe.StateFailed, failed.State)
	require.Equal(t, "charge", failed.FailedStep)
	require.Len(t, failed.Steps, 2)
	require.Equal(t, "declined", failed.Steps[1].Class)
	failed.Steps = nil
	var row troupe.RunStatus
	s.decodes(&row, "runs", "list", "--jsonl", "--state", "failed")
	require.Equal(t, failed, row)

	var history struct {
		Events []troupe.Event `json:"events"`
	}
	s.decodes(&history, "runs", "events", s.failed.String(), "--json")
	require.Equal(t, "run_created", history.Events[0].Kind)
	require.Equal(t, "run_failed", history.Events[len(history.Events)-1].Kind)
	for _, args := range [][]string{{"events", s.failed.String()}, {"tail", s.failed.String()}} {
		lines := strings.Split(strings.TrimSpace(s.does(append(append([]string{"runs"}, args...), "--jsonl")...)), "\n")
		require.Len(t, lines, len(history.Events))
		for i, line := range lines {
			var e troupe.Event
			require.NoError(t, json.Unmarshal([]byte(line), &e))
			require.Equal(t, history.Events[i], e)
		}
	}

	var page troupe.RunPage
	s.decodes(&page, "runs", "list", "--json", "--limit", "2")
	require.Len(t, page.Runs, 2)
	require.Equal(t, s.sleeping, page.Runs[0].ID)
	out := s.does("runs", "list", "--limit", "2")
	require.Contains(t, out, "more: --before "+s.failed.String()+"\n")
	before := page.Next.String()
	page = troupe.RunPage{}
	s.decodes(&page, "runs", "list", "--json", "--before", before)
	require.Len(t, page.Runs, 1)
	require.True(t, page.Next.IsZero())
	code, out, problem := call(s.environ, "runs", "list", "--limit", "2", "--jsonl")
	require.Zero(t, code)
	require.Equal(t, 2, strings.Count(out, "\n"))
	require.Contains(t, problem, "more: --before ", "where it is no row")
}

// Each filter selects what it says.
func TestRunsListFilters(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, test := range []struct {
		args []string
		want []troupe.RunID
	}{
		{nil, []troupe.RunID{s.sleeping, s.failed, s.completed}},
		{[]string{"--workflow", "orders"}, []troupe.RunID{s.failed, s.completed}},
		{[]string{"--state", "running,pending"}, []troupe.RunID{s.sleeping}},
		{[]string{"--state", "failed", "--state", "completed"}, []troupe.RunID{s.failed, s.completed}},
		{[]string{"--label", "color=red"}, []troupe.RunID{s.completed}},
		{[]string{"--key", "o-1"}, []troupe.RunID{s.completed}},
		{[]string{"--class", "declined"}, []troupe.RunID{s.failed}},
		{[]string{"--failed-step", "charge"}, []troupe.RunID{s.failed}},
		{[]string{"--origin", "cli"}, nil},
		{[]string{"--tenant", "acme"}, []troupe.RunID{s.failed, s.completed}},
		{[]string{"--tenant", "none"}, nil},
		{[]string{"--since", "1d"}, []troupe.RunID{s.sleeping, s.failed, s.completed}},
		{[]string{"--since", "1h"}, []troupe.RunID{s.sleeping, s.failed, s.completed}},
		{[]string{"--until", "1h"}, nil},
		{[]string{"--since", "2030-01-31T08:00:00Z"}, nil},
	} {
		var page troupe.RunPage
		require.NoError(t, json.Unmarshal([]byte(s.does(append([]string{"runs", "list", "--json"}, test.args...)...)), &page))
		var ids []troupe.RunID
		for i := range page.Runs {
			ids = append(ids, page.Runs[i].ID)
		}
		require.Equal(t, test.want, ids, "%v", test.args)
	}
	code, out, problem := call(s.environ, "runs", "list", "--json", "--origin", "web")
	require.Zero(t, code, "another program may call itself so")
	require.NotContains(t, out, `"id"`)
	require.Equal(t, "troupe: no run was found, and \"web\" is no origin that the engine sets: use one of api, tx, message, requeue, child, cli, or what a program calls itself in messages or as an operator\n", problem)
}

// What a cancel says, and what explain says of it afterwards.
func TestRunsCancel(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sleeping := s.sleeping.String()
	require.Equal(t, "run "+sleeping+" is canceled\n", s.does("runs", "cancel", sleeping, "--reason", "wrong address"))
	require.Equal(t, "run "+sleeping+" had ended before, it is canceled: nothing was changed\n", s.does("runs", "cancel", sleeping))
	require.JSONEq(t, `{"run": "`+s.failed.String()+`", "state": "failed", "before": true}`, s.does("runs", "cancel", s.failed.String(), "--json"))
	require.Regexp(t, `^the run was canceled .* ago, by cli \(anna\): wrong address\n$`, s.does("explain", sleeping))
	var reasons []explain.Reason
	require.NoError(t, json.Unmarshal([]byte(s.does("explain", sleeping, "--json")), &reasons))
	require.Equal(t, "cli (anna)", reasons[0].By)
	require.Equal(t, "wrong address", reasons[0].CancelReason)
	require.NoError(t, json.Unmarshal([]byte(s.does("explain", s.failed.String(), "--json")), &reasons))
	require.Len(t, reasons, 1)
	require.Equal(t, "charge", reasons[0].Step)
	require.Equal(t, "declined", reasons[0].Class)
	require.Equal(t, "the bank declined o-2", reasons[0].Error)
	require.Equal(t, 2, reasons[0].Attempts)
	require.Contains(t, s.refuses(exitNotFound, "runs", "cancel", sleeping, "--tenant", "acme"), `of tenant "acme" in schema troupe of that database: it may be another tenant's`)
}

// A run that has failed continues as a new one. What has no dead letter cannot.
func TestRunsRequeue(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.open(nil)
	out := s.does("runs", "requeue", s.failed.String(), "--label", "by=hand")
	require.Regexp(t, `^requeued as run [0-9a-f-]{36}: 1 step taken over, 1 letter\n$`, out)
	_, next, _ := strings.Cut(strings.Split(out, ":")[0], "as run ")
	require.Regexp(t, `: the bank declined o-2; requeued .* ago as run `+next+` \(troupe explain `+next+` says how that run stands\)\n$`, s.does("explain", s.failed.String()))
	require.Contains(t, s.refuses(exitFailed, "runs", "requeue", s.failed.String()), "pass --again to requeue it once more")
	var done requeuedJSON
	require.NoError(t, json.Unmarshal([]byte(s.does("runs", "requeue", s.failed.String(), "--again", "--from-start", "--json")), &done))
	require.Equal(t, 1, done.Letters)
	require.Zero(t, done.TakenOver)
	require.Contains(t, s.refuses(exitNotFound, "runs", "requeue", s.completed.String()), "has no dead letter, so nothing can be requeued: troupe runs show")
}

// digits are those of the hash of a definition.
var digits = regexp.MustCompile(`[0-9a-f]{64}`)

// A trigger from the command: what it prints, and with which code it ends.
func TestRunsTrigger(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.open(nil)
	out := s.does("runs", "trigger", "orders", "--input", `{"ID": "o-9", "Cents": 100}`, "--wait")
	require.Regexp(t, `^triggered run [0-9a-f-]{36}\ncompleted: "charged o-9 100"\n$`, out)

	file := filepath.Join(t.TempDir(), "order.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"ID": "o-10", "Cents": 0}`), 0o600))
	code, out, problem := call(s.environ, "runs", "trigger", "orders", "--input", "@"+file, "--wait", "--json", "--tenant", "acme", "--key", "k", "--label", "color=blue")
	require.Equal(t, exitRunEnded, code, problem)
	require.Contains(t, problem, `run failed: step "charge": the bank declined o-10`)
	var said triggeredJSON
	require.NoError(t, json.Unmarshal([]byte(out), &said))
	require.Equal(t, "failed", *said.State)
	require.Contains(t, *said.Error, "declined")
	require.Nil(t, said.Output)
	code, again, problem := piped(`{"ID":"o-10","Cents":0}`, s.environ, "runs", "trigger", "orders", "--input", "-", "--tenant", "acme", "--key", "k", "--json")
	require.Zero(t, code, problem)
	require.JSONEq(t, `{"run": "`+said.Run+`", "existing": true, "state": null, "output": null, "error": null}`, again)
	require.Contains(t, s.refuses(exitFailed, "runs", "trigger", "orders", "--input", "{}", "--tenant", "acme", "--key", "k"), "run "+said.Run+" has this key and another input")
	require.Contains(t, s.does("runs", "show", said.Run), "by cli")

	require.Contains(t, s.refuses(exitNotFound, "runs", "trigger", "nothing", "--input", "null"), `"nothing" is not stored: start a pod that registers it`)
	require.Contains(t, s.refuses(exitNotFound, "runs", "trigger", "orders", "--input", "null", "--version", "00"), `no stored definition of "orders" begins with "00"`)
	require.Contains(t, s.refuses(exitFailed, "runs", "trigger", "orders", "--input", "null", "--queue", "nowhere"), `no pod ever served "nowhere"`)

	longer, err := troupe.New(s.pool, troupe.Config{PodName: "later"})
	require.NoError(t, err)
	_, err = troupe.Register(longer, parcelsWorkflow(48*time.Hour))
	require.NoError(t, err)
	require.NoError(t, longer.Start(t.Context()))
	t.Cleanup(func() { _ = longer.Stop(context.Background()) })
	require.Regexp(t, `"parcels" has 2 versions to choose from: name one of [0-9a-f]+, [0-9a-f]+, with --version: troupe workflows show parcels shows how they differ`,
		s.refuses(exitUsage, "runs", "trigger", "parcels", "--input", `"p"`))
	shown := s.does("workflows", "show", "parcels")
	require.Contains(t, shown, "sleep 24h0m0s")
	versions := digits.FindAllString(shown[:strings.Index(shown, "sleep 48h0m0s")], -1)
	out = s.does("runs", "trigger", "parcels", "--version", versions[len(versions)-1], "--input", `"p"`, "--at", "2030-01-31T08:00:00Z")
	require.Regexp(t, `^triggered run [0-9a-f-]{36}\n$`, out)
}

// tail prints what is added to a run, and ends with it.
func TestRunsTailFollows(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	printed := make(chan string, 100)
	ended := make(chan int)
	go func() {
		ended <- run([]string{"runs", "tail", s.sleeping.String()}, world{environ: s.environ, in: strings.NewReader(""), out: lines(printed), err: os.Stderr})
	}()
	require.Contains(t, <-printed, "run_created")
	s.does("runs", "cancel", s.sleeping.String(), "--reason", "enough")
	require.Zero(t, <-ended)
	close(printed)
	var last string
	for line := range printed {
		last = line
	}
	require.Contains(t, last, "run_canceled")
}

// lines takes each write for a line.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// --watch prints again until it is interrupted.
func TestWatchedCommandsPrintAgain(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, args := range [][]string{{"runs", "list", "--watch=1s", "--workflow", "orders"}, {"queues", "--watch=1s"}, {"pods", "--watch=1s", "--json"}} {
		ctx, cancel := context.WithCancel(t.Context())
		printed := make(chan string, 100)
		root := rootCommand(world{environ: s.environ, in: strings.NewReader(""), out: lines(printed), err: os.Stderr})
		root.SetArgs(args)
		ended := make(chan error)
		go func() { ended <- root.ExecuteContext(ctx) }()
		first := <-printed
		require.Equal(t, first, <-printed, "%v", args)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

// A run that is not there, and a role that lacks a right, are told with the remedy.
func TestRunsSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const none = "0190c2f3-7a1b-7c3d-8e4f-0123456789ab"
	for _, args := range [][]string{{"show", none}, {"events", none}, {"tail", none}, {"cancel", none}} {
		problem := s.refuses(exitNotFound, append([]string{"runs"}, args...)...)
		require.Equal(t, "troupe: no run "+none+" in schema troupe of that database: it may have been removed after its retention, or be in another schema:"+
			" troupe runs list shows those that are kept\n", problem, "%v", args)
	}
	require.Contains(t, s.refuses(exitNotFound, "workflows", "show", "nothing"), `no workflow "nothing" is stored in schema troupe`)
	require.Contains(t, s.refuses(exitNotFound, "workflows", "show", "orders", "--version", "00"), `no workflow "orders" of version "00" is stored`)

	reads, role := reader(t, s.pool)
	for _, args := range [][]string{{"runs", "list"}, {"runs", "tail", s.completed.String()}, {"workflows", "show", "orders"}, {"queues"}, {"pods"}} {
		code, _, problem := call(reads, args...)
		require.Zero(t, code, "to read is enough: %v: %s", args, problem)
	}
	code, _, problem := call(reads, "runs", "cancel", s.sleeping.String())
	require.Equal(t, exitFailed, code)
	require.Contains(t, problem, `let the owner of the schema run: grant usage on schema "troupe" to `)
	require.Contains(t, problem, `grant select, insert, update, delete on all tables in schema "troupe"`)
	_, err := s.pool.Exec(t.Context(), "grant select, insert, update, delete on all tables in schema troupe to "+role)
	require.NoError(t, err)
	code, _, problem = call(reads, "runs", "cancel", s.sleeping.String())
	require.Zero(t, code, problem)
}

func TestWrongCallsAboutRuns(t *testing.T) {
	t.Parallel()
	const id = "0190c2f3-7a1b-7c3d-8e4f-0123456789ab"
	for want, args := range map[string][]string{
		`troupe runs has no command "lst": did you mean list?`:                   {"runs", "lst"},
		`"x" is not the id of a run: troupe runs list shows ids, such as 0190c2`: {"runs", "show", "x"},
		"troupe runs show takes the id of one run, got 0 arguments":              {"runs", "show"},
		"troupe runs cancel takes the id of one run, got 2 arguments":            {"runs", "cancel", id, id},
		"--tenant is empty": {"runs", "events", id, "--tenant", ""},
		"--state is \"lost\": use one of pending, running, completed, failed, canceled": {"runs", "list", "--state", "lost"},
		"--limit is 0: use 1 to 1000": {"runs", "list", "--limit", "0"},
		"--since is \"yesterday\": use a duration such as 2h or 3d, or an instant": {"runs", "list", "--since", "yesterday"},
		"--until is -1h: use a positive duration":                                  {"runs", "list", "--until", "-1h"},
		"--since is -2d: use a positive duration":                                  {"runs", "list", "--since", "-2d"},
		"--before is \"x\", which is not the id of a run":                          {"runs", "list", "--before", "x"},
		"--workflow is empty":                                                      {"runs", "list", "--workflow", ""},
		`--key is "\xff", which is not valid UTF-8`:                                {"runs", "list", "--key", "\xff"},
		"--json and --jsonl are both given":                                        {"runs", "list", "--json", "--jsonl"},
		"--watch is 1ms: use 1s to 1h0m0s":                                         {"runs", "list", "--watch=1ms"},
		"--watch is 0s":                                                            {"queues", "--watch=0s"},
		"unknown flag: --json":                                                     {"runs", "tail", id, "--json"},
		"--grace is -1s: use a positive duration":                                  {"runs", "cancel", id, "--grace", "-1s"},
		"--queue is empty":                                                         {"runs", "requeue", id, "--queue", ""},
		"--raw is given without --input":                                           {"runs", "requeue", id, "--raw"},
		"troupe runs trigger takes the name of one workflow, got 0 arguments":      {"runs", "trigger", "--input", "1"},
		"trigger needs --input":                                                    {"runs", "trigger", "orders"},
		"--input is not JSON":                                                      {"runs", "trigger", "orders", "--input", "{"},
		"--input: open /nowhere/at/all":                                            {"runs", "trigger", "orders", "--input", "@/nowhere/at/all"},
		"--key: 1100 bytes; at most 1024":                                          {"runs", "trigger", "orders", "--input", "1", "--key", strings.Repeat("k", 1100)},
		"the name of the workflow: 300 bytes":                                      {"runs", "trigger", strings.Repeat("w", 300), "--input", "1"},
		"--version is \"xyz\": use the hexadecimal digits":                         {"runs", "trigger", "orders", "--input", "1", "--version", "xyz"},
		"--at is \"soon\"":                                                         {"runs", "trigger", "orders", "--input", "1", "--at", "soon"},
		"takes a run, the name of a signal and its value, got 1 argument":          {"runs", "signal", id},
		`"approved" is not the id of a run`:                                        {"runs", "signal", "approved", "1"},
		"--workflow and --key name a run together":                                 {"runs", "signal", "--key", "k", "approved"},
		"with --key takes the name of a signal and its value, got 3":               {"runs", "signal", "--key", "k", "--workflow", "w", "a", "b", "c"},
		"the value is not JSON":                                                    {"runs", "signal", id, "approved", "yes"},
		"the value: open /nowhere/at/all":                                          {"runs", "signal", id, "approved", "@/nowhere/at/all"},
		"--id: 256 bytes; at most 255":                                             {"runs", "signal", id, "approved", "--id", strings.Repeat("i", 256)},
		"--id is empty":                                                            {"runs", "signal", id, "approved", "--id", ""},
		"the name of the signal: 300 bytes":                                        {"runs", "signal", id, strings.Repeat("s", 300)},
		"the name of the signal: name the signal":                                  {"runs", "signal", id, ""},
		"troupe workflows show takes the name of one workflow":                     {"workflows", "show"},
		`troupe pods takes no argument, got "x"`:                                   {"pods", "x"},
		`troupe completion has no command "csh"`:                                   {"completion", "csh"},
		`troupe completion bash takes no argument, got "x"`:                        {"completion", "bash", "x"},
	} {
		code, out, problem := call([]string{"TROUPE_DATABASE_URL=postgres://127.0.0.1:1/none"}, args...)
		require.Equal(t, exitUsage, code, "%v: %s", args, problem)
		require.Empty(t, out)
		require.Contains(t, problem, want)
		require.Equal(t, 1, strings.Count(problem, "\n"), "%q", problem)
	}
}

// What a shell asks is answered with what is there, or with nothing.
func TestCompletionKnowsWhatIsThere(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	names := func(environ []string, args ...string) []string {
		t.Helper()
		var out strings.Builder
		code := run(append([]string{"__complete"}, args...), world{
			environ: environ, in: strings.NewReader(""), out: &out, err: io.Discard, completing: time.Minute, // a busy machine is slow
		})
		require.Zero(t, code)
		var found []string
		for line := range strings.Lines(out.String()) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			found = append(found, name)
		}
		require.Regexp(t, `^:\d+$`, found[len(found)-1], "the directive")
		return found[:len(found)-1]
	}
	ids := []string{s.sleeping.String(), s.failed.String(), s.completed.String()}
	require.Equal(t, ids, names(s.environ, "runs", "show", ""))
	require.Equal(t, ids[1:2], names(s.environ, "explain", ids[1][:35]))
	require.Equal(t, ids[1:2], names(s.environ, "explain", ids[1]), "the last id that begins so")
	require.Equal(t, ids[1:], names(s.environ, "runs", "events", "--tenant", "acme", ""))
	require.Empty(t, names(s.environ, "runs", "show", ids[0], ""), "it takes one")
	require.Empty(t, names(s.environ, "runs", "show", "x"))
	require.Equal(t, []string{"orders", "parcels"}, names(s.environ, "runs", "trigger", ""))
	require.Equal(t, ids, names(s.environ, "runs", "signal", ""))
	require.Empty(t, names(s.environ, "runs", "signal", ids[0], "x"))
	require.Equal(t, []string{"parcels"}, names(s.environ, "runs", "list", "--workflow", "p"))
	require.Equal(t, []string{"acme", "default"}, names(s.environ, "queues", "--tenant", ""))
	require.Equal(t, []string{"running,completed", "running,canceled"}, names(s.environ, "runs", "list", "--state", "running,c"))
	require.Contains(t, names(s.environ, ""), "completion")
	for _, environ := range [][]string{nil, {"TROUPE_DATABASE_URL=postgres://127.0.0.1:1/none"}, {"TROUPE_LEESE=3s"}} {
		require.Empty(t, names(environ, "runs", "show", ""))
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, out, problem := call(nil, "completion", shell)
		require.Zero(t, code, problem)
		require.Contains(t, out, "troupe")
	}
}
