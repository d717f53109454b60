package postgres

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Channel is the notification channel of a schema, and the prefix of its
// logical messages (pg_logical_emit_message).
func Channel(schema string) string { return schema + "_wake" }

// Publication is the name of the publication that a stream of the schema
// reads. The migrations create it.
func Publication(schema string) string { return schema + "_wake" }

// LeaderKey is the key of the advisory lock that the leader of the schema
// holds. Advisory locks are per database.
func LeaderKey(schema string) int64 {
	h := fnv.New64a()
	h.Write([]byte("troupe leader\x00" + schema))
	return int64(h.Sum64())
}

// slotName is a replication slot's name that no other session has: slots are
// shared by all databases of a server. It tells people the schema and the pod.
func slotName(schema string, pod int64) string {
	const schemaBytes = 24 // with a hash, a pod and a random part it stays within 63 bytes
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(schema))
	h := fnv.New32a()
	h.Write([]byte(schema))
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return fmt.Sprintf("%s_%08x_%d_%s", readable[:min(len(readable), schemaBytes)], h.Sum32(), max(pod, 0), hex.EncodeToString(random[:]))
}

// statement fills the schema into an embedded statement.
func statement(sql, schema string) string {
	return strings.ReplaceAll(sql, "{schema}", pgx.Identifier{schema}.Sanitize())
}

// literal quotes text for the simple protocol, the only one of a replication
// connection.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
