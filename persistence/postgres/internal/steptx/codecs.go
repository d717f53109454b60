package steptx

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// OwnTypes has a connection of the embedder's encode and decode as one that pgx has just
// made does, for the engine's statements: whatever its pool, or a step, has registered
// for types that these use. back restores what was there. Meanwhile the connection is
// the caller's alone.
func OwnTypes(conn *pgx.Conn) (back func()) {
	types := conn.TypeMap()
	theirs := *types
	*types = *pgtype.NewMap()
	return func() { *types = theirs }
}
