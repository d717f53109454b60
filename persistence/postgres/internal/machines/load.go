package machines

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// Loaded are what activations of machines begin with, by run.
type Loaded map[workflow.RunID]*persistence.MachineGrant

// Load reads what activations of machines begin with. Runs that are in history by now are missing.
// What cannot be read is left out, and unreadable is called for its run; in a transaction it fails
// that.
func Load(
	ctx context.Context, db *pgsql.DB, on pgsql.Querier, runs []workflow.RunID, unreadable func(workflow.RunID, error) error,
) (Loaded, error) {
	found := Loaded{}
	if len(runs) == 0 {
		return found, nil
	}
	blames := pgerr.Unreadable
	if _, is := on.(pgx.Tx); is {
		blames = func(error) bool { return false }
	}
	return found, pgsql.Bisect(runs, func(part []workflow.RunID) error { return found.load(ctx, db, on, part) }, blames, unreadable)
}

func (l Loaded) load(ctx context.Context, db *pgsql.DB, on pgsql.Querier, runs []workflow.RunID) error {
	text, args := db.Bind("load_machines", pgsql.Named{
		"runs": pgsql.UUIDs(runs), "limit": int32(persistence.EntriesMax), "bytes": int64(persistence.EntriesBytes),
	})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	var run workflow.RunID
	var g persistence.MachineGrant
	e := entryRow{}
	targets := append([]any{(*[16]byte)(&run), &e.entry.N, &g.Version, &g.State, &g.Taken, &g.Arrived, &g.Started}, e.targets()...)
	_, err = pgx.ForEachRow(rows, targets, func() error {
		if e.entry.N == 0 {
			grant := g
			if g.Version == 0 {
				grant.State = nil
			}
			l[run] = &grant
			return nil
		}
		of := l[run]
		if e.kept {
			of.Entries = append(of.Entries, e.read())
		} else {
			of.Arrived = of.Entries[len(of.Entries)-1].N
		}
		return nil
	})
	return err
}

// entryRow is a row of an entry, while it is read. Beyond the bounds of a page it is not kept.
type entryRow struct {
	entry       persistence.MachineEntry
	kind        int16
	at          *time.Time
	name        *string
	class, text *string
	kept        bool
}

// targets are those of the columns behind the number of the entry.
func (r *entryRow) targets() []any {
	return []any{&r.kind, &r.at, &r.name, &r.entry.Payload, &r.class, &r.text, &r.kept}
}

func (r *entryRow) read() persistence.MachineEntry {
	e := r.entry
	e.Kind, e.At = persistence.EntryKind(r.kind), pgsql.OrZero(r.at)
	e.Name, e.Class, e.Error = pgsql.OrZero(r.name), pgsql.OrZero(r.class), pgsql.OrZero(r.text)
	return e
}
