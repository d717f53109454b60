package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// registerOthers has a connection treat all types that the engine's statements use as
// another one.
func registerOthers(conn *pgx.Conn, codec pgtype.Codec) {
	for _, oid := range []uint32{
		pgtype.UUIDOID, pgtype.TimestamptzOID, pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.ByteaOID, pgtype.TextOID,
		pgtype.UUIDArrayOID, pgtype.TimestamptzArrayOID, pgtype.Int2ArrayOID, pgtype.Int4ArrayOID, pgtype.Int8ArrayOID,
		pgtype.ByteaArrayOID, pgtype.TextArrayOID, pgtype.BoolOID,
	} {
		conn.TypeMap().RegisterType(&pgtype.Type{Name: "other", OID: oid, Codec: codec})
	}
}

// What the embedder registers for types is for the embedder's statements.
func TestTypesThatTheEmbedderRegisters(t *testing.T) {
	t.Parallel()
	for name, codec := range map[string]pgtype.Codec{"as text": pgtype.TextCodec{}, "as points": pgtype.PointCodec{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := storetest.Single()
			k := newFixture(openChanged(t, func(config *pgxpool.Config) {
				config.MaxConns = 1
				config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
					registerOthers(conn, codec)
					return nil
				}
			}), g)
			pod := k.join(time.Minute)
			theirs := func(conn *pgx.Conn) {
				registered, ok := conn.TypeMap().TypeForOID(pgtype.UUIDOID)
				require.True(t, ok)
				require.Equal(t, codec, registered.Codec)
			}
			_, err := k.step(pod, func(_ context.Context, tx pgx.Tx) error {
				theirs(tx.Conn())
				return nil
			})
			require.NoError(t, err)
			require.NoError(t, pgx.BeginFunc(k.ctx, k.user, func(tx pgx.Tx) error {
				theirs(tx.Conn())
				draft := k.draft(g, "tenant", 1)[0]
				draft.Key = "key"
				answer, err := k.store.TriggerInTx(k.ctx, tx, draft)
				require.NoError(t, err)
				require.Equal(t, persistence.Triggered, answer.Result)
				theirs(tx.Conn())
				return nil
			}))
		})
	}
}

// Tables of a step's session that are named as types are not these types.
func TestAStepThatHidesTypes(t *testing.T) {
	t.Parallel()
	k := newFixture(openDatabase(t, Options{}), storetest.Single())
	pod := k.join(time.Minute)
	for range 3 { // the tables stay with the session
		_, err := k.step(pod, func(ctx context.Context, tx pgx.Tx) error {
			for _, name := range []string{"uuid", "text", "int8", "int4", "int2", "bytea", "timestamptz", "bool"} {
				if _, err := tx.Exec(ctx, "create temp table if not exists "+pgx.Identifier{name}.Sanitize()+" (x int)"); err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(t, err)
	}
}
