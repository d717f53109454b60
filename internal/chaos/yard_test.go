package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
	"github.com/troupe-dev/troupe/migrations"
)

const (
	patience = 2 * time.Minute // for anything that must happen at all
	lookGap  = 10 * time.Millisecond
)

// yard is one database and the pods on it.
type yard struct {
	t    *trial
	url  string
	dir  string
	pool *pgxpool.Pool // of the test
	tune tuning
	load int            // callers of each pod
	each func(*podSpec) // changes what a pod is told, before it starts; may be nil

	mu     sync.Mutex
	pods   map[string]*pod // the living, by name
	starts int
}

// newYard returns a migrated database on the shared server.
func newYard(t *trial, tune tuning, callers int) *yard {
	t.Helper()
	return newYardOn(t, pgtest.Database(t), tune, callers)
}

// newYardOn returns a yard on an empty database anywhere.
func newYardOn(t *trial, url string, tune tuning, callers int) *yard {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, pool.QueryRow(t.Context(), "show server_version").Scan(&t.server))
	t.server, _, _ = strings.Cut(t.server, " ") // without the package's name
	_, err = migrations.Migrate(t.Context(), pool, migrations.DefaultSchema)
	require.NoError(t, err)
	for _, table := range []string{"effects", "orders"} {
		_, err = pool.Exec(t.Context(), "create table public."+table+" (run text primary key)")
		require.NoError(t, err)
	}
	y := &yard{t: t, url: url, dir: t.dir, pool: pool, tune: tune, load: callers, pods: map[string]*pod{}}
	t.Cleanup(func() {
		for _, p := range y.alive() {
			p.signal(syscall.SIGCONT)
			p.signal(syscall.SIGKILL)
			<-p.ended
		}
		if t.Failed() {
			y.keepHistory()
		}
	})
	return y
}

// pod is one pod's process, as the test sees it.
type pod struct {
	name    string
	ledger  string
	log     string
	command *exec.Cmd
	stdin   io.WriteCloser
	lines   chan string
	ended   chan struct{} // closed once the process has been waited for
	ready   bool          // it has said so, and the test has heard
}

// spawn starts a pod under a name; it is not ready yet.
func (y *yard) spawn(name string) *pod {
	y.t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	y.starts++
	stem := filepath.Join(y.dir, fmt.Sprintf("%03d-%s", y.starts, name))
	p := &pod{name: name, ledger: stem + ".ledger", log: stem + ".log", lines: make(chan string, 64), ended: make(chan struct{})}
	told := podSpec{Name: name, URL: y.url, Dir: y.dir, Ledger: p.ledger, Callers: y.load, Tune: y.tune}
	if y.each != nil {
		y.each(&told)
	}
	spec, err := json.Marshal(told)
	require.NoError(y.t, err)
	log, err := os.Create(p.log)
	require.NoError(y.t, err)
	defer func() { _ = log.Close() }() // the child has its own copy
	self, err := os.Executable()
	require.NoError(y.t, err)
	p.command = exec.Command(self)
	p.command.Env = append(os.Environ(), podVariable+"="+string(spec))
	p.command.Stderr = log
	p.stdin, err = p.command.StdinPipe()
	require.NoError(y.t, err)
	stdout, err := p.command.StdoutPipe()
	require.NoError(y.t, err)
	require.NoError(y.t, p.command.Start())
	y.pods[name] = p
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.lines <- lines.Text()
		}
		close(p.lines)
		_ = p.command.Wait() // how it ended is in ProcessState
		y.mu.Lock()
		defer y.mu.Unlock()
		if y.pods[name] == p {
			delete(y.pods, name)
		}
	}()
	return p
}

// start starts pods and waits until all are ready.
func (y *yard) start(names ...string) []*pod {
	y.t.Helper()
	pods := make([]*pod, len(names))
	for i, name := range names {
		pods[i] = y.spawn(name)
	}
	for _, p := range pods {
		y.awaitReady(p)
	}
	return pods
}

// awaitReady waits until a pod serves, unless it was heard before.
func (y *yard) awaitReady(p *pod) {
	y.t.Helper()
	if !p.ready {
		y.hear(p, "ready")
		p.ready = true
	}
}

func (y *yard) alive() []*pod {
	y.mu.Lock()
	defer y.mu.Unlock()
	pods := make([]*pod, 0, len(y.pods))
	for _, p := range y.pods {
		pods = append(pods, p)
	}
	return pods
}

func (y *yard) named(name string) *pod {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.pods[name]
}

// hear waits for a line of a pod that begins with a word, and returns it.
func (y *yard) hear(p *pod, word string) string {
	y.t.Helper()
	return y.hearWithin(p, word, patience)
}

func (y *yard) hearWithin(p *pod, word string, limit time.Duration) string {
	y.t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case line, open := <-p.lines:
			if !open {
				<-p.ended
				y.t.Fatalf("%s ended (%v) before it said %q", p.name, p.command.ProcessState, word)
			}
			if strings.HasPrefix(line, word) {
				return line
			}
		case <-timer.C:
			y.t.Fatalf("%s did not say %q in %v", p.name, word, limit)
		}
	}
}

func (p *pod) tell(line string) { _, _ = io.WriteString(p.stdin, line+"\n") } // one that is gone does not listen

func (p *pod) signal(s syscall.Signal) { _ = p.command.Process.Signal(s) } // one that is gone does not mind

// kill ends a pod with SIGKILL.
func (p *pod) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// trigger has a pod trigger runs, and returns their ids.
func (y *yard) trigger(p *pod, shape string, n int) []string {
	y.t.Helper()
	p.tell(fmt.Sprintf("trigger %s %d", shape, n))
	ids := strings.Fields(strings.TrimPrefix(y.hear(p, "triggered"), "triggered"))
	require.Len(y.t, ids, n)
	for _, id := range ids {
		require.NotContains(y.t, id, "failed")
	}
	return ids
}

// stats returns what a pod counts about itself.
func (y *yard) stats(p *pod) (stats troupe.Stats) {
	y.t.Helper()
	y.ask(p, "stats", &stats)
	return stats
}

// health returns how a pod says that it is.
func (y *yard) health(p *pod) (health troupe.Health) {
	y.t.Helper()
	y.ask(p, "health", &health)
	return health
}

func (y *yard) ask(p *pod, what string, answer any) {
	y.t.Helper()
	p.tell(what)
	require.NoError(y.t, json.Unmarshal([]byte(strings.TrimPrefix(y.hear(p, what), what)), answer))
}

// until waits for a condition.
func (y *yard) until(what string, limit time.Duration, holds func() bool) time.Duration {
	y.t.Helper()
	began := time.Now()
	ticks := time.NewTicker(lookGap)
	defer ticks.Stop()
	for !holds() {
		if time.Since(began) > limit {
			y.t.Fatalf("not after %v: %s", limit, what)
		}
		<-ticks.C
	}
	return time.Since(began)
}

// number reads one number, by a query with codes by their names. A database that is away for a moment is waited for.
func (y *yard) number(query string, args ...any) int {
	y.t.Helper()
	query = coded(query)
	var n int
	var err error
	for began := time.Now(); time.Since(began) < patience; {
		if err = y.pool.QueryRow(y.t.Context(), query, args...).Scan(&n); err == nil {
			return n
		}
		_ = pause(y.t.Context(), lookGap) // the loop ends by itself
	}
	require.NoError(y.t, err)
	return 0
}

// letGo lets the holds of a pod go.
func (y *yard) letGo(pod string) {
	y.t.Helper()
	require.NoError(y.t, os.WriteFile(releaseFile(y.dir, pod), nil, 0o600))
}

// under lets the load go on for a while.
func (y *yard) under(d time.Duration) { _ = pause(context.Background(), d) } // it never ends early

// keepHistory writes what the tables say beside the logs.
func (y *yard) keepHistory() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	const query = `select coalesce(string_agg(line, E'\n'), '') from (
		select concat_ws(' ', at::time(3), run_id, 'step', step, 'n', n, 'kind', kind, 'attempt', attempt, 'pod', pod, class, left(text, 300)) as line
		from troupe.every_event order by at desc limit 20000) s`
	var text string
	if err := y.pool.QueryRow(ctx, query).Scan(&text); err != nil {
		text = "no history: " + err.Error()
	}
	if err := os.WriteFile(filepath.Join(y.dir, "history.txt"), []byte(text), 0o600); err != nil {
		y.t.Log(err) // the row has failed anyway
	}
}
