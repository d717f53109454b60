package registry

import (
	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// Names are what triggers refer to, resolved before a transaction begins.
type Names struct {
	Definitions map[workflow.Hash]*Definition
	Queues      map[string]int16 // 0: unknown
}

// Numbers are the definitions as match_definitions takes them.
func (n *Names) Numbers() pgsql.Named {
	numbers, hashes := []int32{}, [][]byte{}
	for hash, d := range n.Definitions {
		if d != nil {
			numbers, hashes = append(numbers, d.Number), append(hashes, append([]byte(nil), hash[:]...))
		}
	}
	return pgsql.Named{"known": numbers, "known_hashes": hashes}
}

// QueueMatch adds the statement that fails with pgerr.ErrRegistryLost unless the
// Definitions are those of the database.
func (s *Registry) QueueMatch(b *pgsql.Batch, known Names) {
	numbers := known.Numbers()
	b.Add("match_definitions", numbers).QueryRow(func(row pgx.Row) error {
		var count int
		if err := row.Scan(&count); err != nil {
			return err
		}
		if list, _ := numbers["known"].([]int32); count < len(list) {
			return pgerr.ErrRegistryLost
		}
		return nil
	})
}
