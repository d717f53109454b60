package pgtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/internal/pgdev"
)

// originals are databases that others are copied from, by what was prepared in them.
type originals struct {
	mu   sync.Mutex
	made map[string]*original
}

// original is a database without connections once it is prepared.
type original struct {
	once sync.Once
	name string
	err  error
}

// Copy is Database for many tests that begin alike: the database is a copy of one
// that prepare was given when it was empty, once for each name in a test binary,
// which takes a tenth of the time that tables take. When prepare returns it has no
// connection left.
func Copy(t testing.TB, name string, prepare func(ctx context.Context, url string) error) string {
	t.Helper()
	s := shared(t)
	o := s.originals.of(name)
	o.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startTimeout)
		defer cancel()
		o.name = databaseName(name, s.databases.Add(1))
		var url string
		if url, o.err = s.server.CreateDatabase(ctx, o.name); o.err == nil {
			o.err = prepare(ctx, url)
		}
	})
	if o.err != nil {
		t.Fatal(fmt.Errorf("prepare the database %q: %w", name, o.err))
	}
	return s.database(t, o.name)
}

func (o *originals) of(name string) *original {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.made == nil {
		o.made = map[string]*original{}
	}
	if o.made[name] == nil {
		o.made[name] = &original{}
	}
	return o.made[name]
}

// drop removes them from a server that keeps running.
func (o *originals) drop(ctx context.Context, server *pgdev.Server) {
	if !server.Foreign() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, original := range o.made {
		if original.name == "" {
			continue
		}
		if err := server.DropDatabase(ctx, original.name); err != nil {
			fmt.Fprintln(os.Stderr, err) // the server goes away soon
		}
	}
}
