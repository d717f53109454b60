// Package pgtest gives tests a real PostgreSQL.
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestClaim(t *testing.T) {
//		url := pgtest.Database(t) // fresh and empty, dropped after the test
//
// All databases of a test binary live on one server, started by the first test
// that asks. It is, in this order: the one of TROUPE_DATABASE_URL, a private
// one from binaries on this machine, a container if Docker answers.
// TROUPE_TEST_POSTGRES=container goes straight to the container, whose image
// TROUPE_TEST_IMAGE names (default postgres:17-alpine). Without any, the test
// is skipped with the remedy; where CI is set, it fails.
// TROUPE_TEST_POSTGRES=none skips these tests: the rest takes seconds.
package pgtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/pgdev"
)

const (
	envSource = "TROUPE_TEST_POSTGRES"

	startTimeout = 2 * time.Minute // a container's image may have to be pulled
	stopTimeout  = 20 * time.Second
)

// binary is what this test binary has. It is a package variable because a
// test binary offers no other place that outlives a test.
var binary suite

// suite is the server that all tests of one binary use.
type suite struct {
	once      sync.Once
	settings  map[string]string // set by Main before any test runs
	server    *pgdev.Server
	stop      func(context.Context) error
	err       error
	databases atomic.Int64
	originals originals
}

// Main runs the tests, stops the shared server and exits: the body of a
// TestMain. Settings, if given, override the shared server's configuration.
// Without a Main the server still ends with the test binary.
func Main(m *testing.M, settings ...map[string]string) {
	os.Exit(Run(m, settings...))
}

// Run is Main for a TestMain that has something left to do: it returns the exit
// code.
func Run(m *testing.M, settings ...map[string]string) int {
	binary.settings = merge(settings)
	overlap()
	code := m.Run()
	if binary.stop != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		binary.originals.drop(ctx, binary.server)
		if err := binary.stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "stop the tests' PostgreSQL:", err)
		}
		cancel()
	}
	return code
}

// overlap lets several parallel tests run at once, unless -parallel was given: they
// wait for PostgreSQL, and for time, more than they compute.
func overlap() {
	const name = "test.parallel"
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if atOnce := max(4, runtime.GOMAXPROCS(0)); !given {
		_ = flag.Set(name, strconv.Itoa(atOnce)) // it is a number
	}
}

// Database returns the address of a new, empty database of the test's own. It
// is dropped, with its connections and replication slots, when the test ends.
// Safe for parallel tests.
func Database(t testing.TB) string {
	t.Helper()
	return shared(t).database(t, "")
}

// shared returns what this test binary has, with its server.
func shared(t testing.TB) *suite {
	t.Helper()
	skipUnwanted(t)
	binary.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startTimeout)
		defer cancel()
		binary.server, binary.stop, binary.err = start(ctx, binary.settings)
	})
	if binary.err != nil {
		unavailable(t, binary.err)
	}
	return &binary
}

// database makes a database of the test's own, a copy unless original is empty.
func (s *suite) database(t testing.TB, original string) (url string) {
	t.Helper()
	name := databaseName(t.Name(), s.databases.Add(1))
	url, err := s.server.CopyDatabase(t.Context(), original, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
		defer cancel()
		if err := s.server.DropDatabase(ctx, name); err != nil {
			t.Log(err) // the server goes away soon
		}
	})
	return url
}

// Server returns a private server for a test that kills it, restarts it or
// needs settings of its own; it is stopped when the test ends. It takes about
// a second. Containers and TROUPE_DATABASE_URL cannot serve here: without
// server binaries the test is skipped, or fails where CI is set.
func Server(t testing.TB, settings map[string]string) *pgdev.Server {
	t.Helper()
	skipUnwanted(t)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	server, err := pgdev.Start(ctx, pgdev.Options{Private: true, Volatile: true, Settings: settings})
	if err != nil {
		unavailable(t, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Errorf("stop the private server: %v", err)
		}
	})
	return server
}

// start returns the shared server and how to stop it.
func start(ctx context.Context, settings map[string]string) (*pgdev.Server, func(context.Context) error, error) {
	if os.Getenv(envSource) == "container" {
		return startContainer(ctx, settings)
	}
	server, err := pgdev.Start(ctx, pgdev.Options{Volatile: true, Settings: settings})
	if errors.Is(err, pgdev.ErrNoServer) && dockerAnswers(ctx) {
		return startContainer(ctx, settings)
	}
	if err != nil {
		return nil, nil, err
	}
	return server, server.Stop, nil
}

func skipUnwanted(t testing.TB) {
	t.Helper()
	if os.Getenv(envSource) == "none" {
		t.Skip(envSource + "=none: tests on PostgreSQL are off")
	}
}

// unavailable ends the test: only a missing PostgreSQL outside of CI is a reason to skip.
func unavailable(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, pgdev.ErrNoServer) && os.Getenv("CI") == "" {
		t.Skipf("%v, or start Docker", err)
	}
	t.Fatal(err)
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// databaseName is unique on the server, which several test binaries may share,
// and says which test left it, if one does.
func databaseName(test string, number int64) string {
	const nameMax = 63 // bytes of a PostgreSQL identifier
	name := fmt.Sprintf("t%d_%d_%s", os.Getpid(), number, notInName.ReplaceAllString(strings.ToLower(test), "_"))
	return name[:min(len(name), nameMax)]
}

func merge(settings []map[string]string) map[string]string {
	merged := map[string]string{}
	for _, s := range settings {
		for name, value := range s {
			merged[name] = value
		}
	}
	return merged
}
