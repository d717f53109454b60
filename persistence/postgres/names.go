package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/workflow"
)

// names are what triggers refer to, resolved before a transaction begins.
type names struct {
	definitions map[workflow.Hash]*definition
	queues      map[string]int16 // 0: unknown
}

// numbers are the definitions as match_definitions takes them.
func (n *names) numbers() pgsql.Named {
	numbers, hashes := []int32{}, [][]byte{}
	for hash, d := range n.definitions {
		if d != nil {
			numbers, hashes = append(numbers, d.number), append(hashes, append([]byte(nil), hash[:]...))
		}
	}
	return pgsql.Named{"known": numbers, "known_hashes": hashes}
}

// queueMatch adds the statement that fails with pgerr.ErrRegistryLost unless the
// definitions are those of the database.
func (s *Registry) queueMatch(b *pgsql.Batch, known names) {
	numbers := known.numbers()
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
