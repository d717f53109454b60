package registry

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// notStored is the step of handlers in stepRows that definitions have none of.
const notStored = -1

// findOlder adds the numbers of the handlers of earlier versions of machines, behind the others of
// their graphs. No definition has to be there that says them.
func (s *Registry) findOlder(ctx context.Context, on pgsql.Querier, graphs []*workflow.Graph, found map[workflow.Hash]numbered) error {
	var of []*workflow.Graph
	var workflows, steps []string
	var fingerprints [][]byte
	for _, g := range graphs {
		if _, is := found[g.Hash]; !is {
			continue
		}
		for _, fingerprint := range g.Older {
			of, workflows, steps = append(of, g), append(workflows, g.Name), append(steps, g.Nodes[0].Name)
			fingerprints = append(fingerprints, fingerprint[:])
		}
	}
	if len(of) == 0 {
		return nil
	}
	text, args := s.Bind("find_older", pgsql.Named{"workflows": workflows, "steps": steps, "fingerprints": fingerprints})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return pgerr.Translate(err)
	}
	var ord, number int32
	_, err = pgx.ForEachRow(rows, []any{&ord, &number}, func() error {
		hash := of[ord-1].Hash
		n := found[hash]
		n.handlers, n.registered = append(n.handlers, number), n.registered && number != 0
		found[hash] = n
		return nil
	})
	return pgerr.Translate(err)
}
