package pgsql

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
)

// Arrays of the store are sent as those of pgx are, without an allocation for each element.
func TestArraysAsArguments(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(1234567)
	for name, c := range map[string]struct {
		oid          uint32
		ours, theirs any
	}{
		"runs":     {pgtype.UUIDArrayOID, UUIDs{{1}, {2, 3}, {}}, [][16]byte{{1}, {2, 3}, {}}},
		"no runs":  {pgtype.UUIDArrayOID, UUIDs{}, [][16]byte{}},
		"null":     {pgtype.UUIDArrayOID, UUIDs(nil), [][16]byte(nil)},
		"instants": {pgtype.TimestamptzArrayOID, Instants{at, {}, at}, []*time.Time{&at, nil, &at}},
		"texts":    {pgtype.TextArrayOID, texts{"a", "", "ccc"}, []string{"a", "", "ccc"}},
		"payloads": {pgtype.ByteaArrayOID, payloads{[]byte("a"), nil, {}}, [][]byte{[]byte("a"), nil, {}}},
	} {
		m := pgtype.NewMap()
		ours, err := m.Encode(c.oid, pgtype.BinaryFormatCode, c.ours, nil)
		require.NoError(t, err, name)
		theirs, err := m.Encode(c.oid, pgtype.BinaryFormatCode, c.theirs, nil)
		require.NoError(t, err, name)
		require.Equal(t, theirs, ours, name)
	}
}

func TestArraysAreEncodedWithoutCopies(t *testing.T) {
	const many = 100
	m, buffer := pgtype.NewMap(), make([]byte, 0, 1<<16)
	for oid, array := range map[uint32]any{
		pgtype.UUIDArrayOID: make(UUIDs, many), pgtype.TimestamptzArrayOID: make(Instants, many),
		pgtype.TextArrayOID: texts(make([]string, many)), pgtype.ByteaArrayOID: make(payloads, many),
	} {
		require.Less(t, testing.AllocsPerRun(10, func() {
			_, err := m.Encode(oid, pgtype.BinaryFormatCode, array, buffer)
			require.NoError(t, err)
		}), 10.0)
	}
}
