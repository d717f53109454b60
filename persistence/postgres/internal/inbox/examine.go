package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// Addressee is what is to be known of the run that a signal is for.
type Addressee struct {
	Run        workflow.RunID // zero: there is none
	Tenant     string
	Definition int32
	Ended      bool
	Repeated   bool // it has a signal of this id
	Untaken    int  // signals that no step has taken
}

// Post is a batch of signals that are examined, and stored, together. It is used once.
type Post struct {
	s       *Sender
	Signals []persistence.Signal
	Answers []persistence.SignalAnswer // in the order of Signals
	Now     time.Time                  // of the database, when it was asked

	to   []Addressee
	seen map[entry]bool         // among those that are to be stored
	more map[workflow.RunID]int // of these, how many
}

// entry names a signal.
type entry struct {
	run workflow.RunID
	id  string
}

// NewPost returns a batch of which nothing is known yet.
func (s *Sender) NewPost(signals []persistence.Signal) *Post {
	return &Post{
		s: s, Signals: slices.Clone(signals), Answers: make([]persistence.SignalAnswer, len(signals)), to: make([]Addressee, len(signals)),
		seen: map[entry]bool{}, more: map[workflow.RunID]int{},
	}
}

// Find asks the database about the runs that the signals are for.
func (p *Post) Find(ctx context.Context, on pgsql.Querier) error {
	if err := p.findContinued(ctx, on); err != nil {
		return err
	}
	clear(p.to)
	b := p.s.NewBatch()
	p.Queue(b)
	b.Add("read_clock", pgsql.Named{}).QueryRow(func(row pgx.Row) error { return row.Scan(&p.Now) })
	return pgsql.Send(ctx, on, b)
}

// findContinued finds the runs of those that name keys.
func (p *Post) findContinued(ctx context.Context, on pgsql.Querier) error {
	var tenants, workflows, keys []string
	var at []int
	for i := range p.Signals {
		of := &p.Signals[i].Key
		if !p.Signals[i].Run.IsZero() || !pgsql.Storable(of.Tenant) || !pgsql.Storable(of.Workflow) || !pgsql.Storable(of.Key) {
			continue
		}
		p.Signals[i].Tenant = of.Tenant
		tenants, workflows, keys, at = append(tenants, of.Tenant), append(workflows, of.Workflow), append(keys, of.Key), append(at, i)
	}
	if len(at) == 0 {
		return nil
	}
	b := p.s.NewBatch()
	b.Add("find_continued", pgsql.Named{"tenants": tenants, "workflows": workflows, "keys": keys}).Query(func(rows pgx.Rows) error {
		var ord int
		var id [16]byte
		_, err := pgx.ForEachRow(rows, []any{&ord, &id}, func() error {
			p.Signals[at[ord-1]].Run = id
			return nil
		})
		return err
	})
	return pgsql.Send(ctx, on, b)
}

// Queue adds the question about the runs to a batch.
func (p *Post) Queue(b *pgsql.Batch) {
	runs, ids := make(pgsql.UUIDs, len(p.Signals)), make([]string, len(p.Signals))
	for i := range p.Signals {
		runs[i] = p.Signals[i].Run
		if p.Signals[i].Check() == nil {
			ids[i] = p.Signals[i].ID
		}
	}
	b.Add("find_addressees", pgsql.Named{
		"runs": runs, "ids": ids, "most": persistence.InboxMax, "always": false,
	}).Query(func(rows pgx.Rows) error {
		var ord int
		var a Addressee
		_, err := pgx.ForEachRow(rows, []any{&ord, &a.Tenant, &a.Definition, &a.Ended, &a.Untaken, &a.Repeated}, func() error {
			a.Run = runs[ord-1]
			p.to[ord-1] = a
			return nil
		})
		return err
	})
}

// Address says what the run of a signal is, that the database does not know yet.
func (p *Post) Address(i int, to Addressee) { p.to[i] = to }

func lost(err error) bool { return errors.Is(err, pgerr.ErrRegistryLost) }

// Judge answers the signals from what was found. on reads definitions that are not known yet.
func (p *Post) Judge(ctx context.Context, on pgsql.Querier) error {
	clear(p.seen)
	clear(p.more)
	for i := range p.Signals {
		var graph *workflow.Graph
		if !p.to[i].Run.IsZero() {
			var err error
			if graph, err = p.s.Graphs.GraphOf(ctx, on, p.to[i].Definition); err != nil && !lost(err) {
				return err
			}
		}
		p.Answers[i] = p.judge(i, graph)
	}
	return nil
}

// judge answers a signal. graph is nil where the definition of its run is not there.
func (p *Post) judge(i int, graph *workflow.Graph) persistence.SignalAnswer {
	signal, to := &p.Signals[i], &p.to[i]
	if to.Run.IsZero() || signal.Tenant != "" && signal.Tenant != to.Tenant {
		return persistence.SignalAnswer{Result: persistence.SignalNoRun}
	}
	answer := persistence.SignalAnswer{Run: to.Run, Err: signal.Check()}
	of := entry{to.Run, signal.ID}
	switch {
	case answer.Err != nil:
		answer.Result = persistence.SignalBadRow
	case to.Repeated || p.seen[of]:
		answer.Result = persistence.SignalRepeated
	case to.Ended:
		answer.Result = persistence.SignalRunEnded
	case graph == nil:
		answer.Result = persistence.SignalBadRow
		answer.Err = fmt.Errorf("run %v: %w", to.Run, pgerr.ErrRegistryLost)
	case len(graph.WaitsFor(signal.Name)) == 0:
		answer.Result, answer.Names = persistence.SignalUnknown, graph.Signals()
	case to.Untaken+p.more[to.Run] >= persistence.InboxMax:
		answer.Result = persistence.SignalInboxFull
	default:
		answer.Result = persistence.SignalStored
		p.seen[of] = true
		p.more[to.Run]++
	}
	return answer
}

// Pending returns which signals are to be stored.
func (p *Post) Pending() (indexes []int) {
	for i := range p.Answers {
		if p.Answers[i].Result == persistence.SignalStored {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// Repeats reports whether an answer tells of a signal that was there.
func (p *Post) Repeats() bool {
	return slices.ContainsFunc(p.Answers, func(a persistence.SignalAnswer) bool { return a.Result == persistence.SignalRepeated })
}
