package doctor

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/url"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

// streams are slots and standbys that keep WAL or rows.
func streams() map[string]provoked {
	strict := usual()
	strict.retained, strict.held = 0, 3
	return map[string]provoked{
		"an active slot that keeps WAL": {func(c *clinic) Options {
			c.exec("select pg_create_physical_replication_slot('slow_reader', true)")
			c.receive("true", "START_REPLICATION SLOT slow_reader PHYSICAL "+c.written())
			c.exec("select pg_switch_wal()")
			return Options{limits: strict}
		}, "slots", Warning, []string{"slot slow_reader keeps ", " MB of WAL / let its reader continue", "pg_drop_replication_slot('slow_reader')"}},
		"a slot that keeps rows": {func(c *clinic) Options {
			c.exec("select pg_create_logical_replication_slot('left_behind', 'pgoutput')")
			c.age(5)
			return Options{limits: strict}
		}, "vacuum", Warning, []string{"slot left_behind is not read and keeps rows of the last ", "let its reader continue, or drop it"}},
		"a standby that keeps rows": {func(c *clinic) Options {
			conn := c.receive("true", "START_REPLICATION PHYSICAL "+c.written())
			c.feedBack(conn)
			c.age(5)
			return Options{limits: strict}
		}, "vacuum", Warning, []string{"standby far_away keeps rows of the last ", "by its feedback", "hot_standby_feedback"}},
	}
}

// receive has a receiver of replication start, which then hears and says nothing.
func (c *clinic) receive(mode, command string) *pgconn.PgConn {
	c.t.Helper()
	address, err := url.Parse(c.url)
	require.NoError(c.t, err)
	query := address.Query()
	query.Set("replication", mode)
	query.Set("application_name", "far_away")
	address.RawQuery = query.Encode()
	conn, err := pgconn.Connect(c.t.Context(), address.String())
	require.NoError(c.t, err)
	c.t.Cleanup(func() {
		_ = conn.Conn().Close() // without a word, as the server would wait for the rest of the stream
		_ = conn.Close(context.Background())
		_, _ = c.pool.Exec(context.Background(), `select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = 'slow_reader' and not active`)
	})
	conn.Frontend().Send(&pgproto3.Query{String: command})
	require.NoError(c.t, conn.Frontend().Flush())
	for {
		message, err := conn.ReceiveMessage(c.t.Context())
		require.NoError(c.t, err)
		switch message := message.(type) {
		case *pgproto3.CopyBothResponse:
			return conn
		case *pgproto3.ErrorResponse:
			require.Fail(c.t, message.Message)
		}
	}
}

// feedBack says what a standby says of the oldest transaction that it has need of.
func (c *clinic) feedBack(conn *pgconn.PgConn) {
	c.t.Helper()
	var text string
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), "select pg_current_xact_id()::text").Scan(&text))
	oldest, err := strconv.ParseUint(text, 10, 64)
	require.NoError(c.t, err)
	feedback := []byte{'h'}
	feedback = binary.BigEndian.AppendUint64(feedback, 0)                  // of the standby's clock
	feedback = binary.BigEndian.AppendUint32(feedback, uint32(oldest))     // its oldest transaction
	feedback = binary.BigEndian.AppendUint32(feedback, uint32(oldest>>32)) // and the epoch of that
	feedback = binary.BigEndian.AppendUint64(feedback, 0)                  // no slot of the standby's own
	conn.Frontend().Send(&pgproto3.CopyData{Data: feedback})
	require.NoError(c.t, conn.Frontend().Flush())
}

// written is where the WAL ends that the server has written.
func (c *clinic) written() (lsn string) {
	c.t.Helper()
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), "select pg_current_wal_flush_lsn()::text").Scan(&lsn))
	return lsn
}

// age lets some transactions pass.
func (c *clinic) age(transactions int) {
	c.t.Helper()
	for range transactions {
		c.exec("select pg_current_xact_id()")
	}
}

// A slot that kept more than it may is of no use to its reader.
func TestFindingsOfInvalidatedSlots(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, map[string]string{"wal_level": "logical", "max_slot_wal_keep_size": "1MB"})
	address, err := server.CreateDatabase(t.Context(), "invalidated")
	require.NoError(t, err)
	c := open(t, address)
	c.exec("select pg_create_physical_replication_slot('fell_behind', true)")
	for i := range 3 {
		c.exec(fmt.Sprintf("select pg_logical_emit_message(false, 'test', '%d')", i))
		c.exec("select pg_switch_wal()")
	}
	c.exec("checkpoint")
	report := c.examine(Options{})
	finds(t, report, "slots", Warning, "slot fell_behind was invalidated: it kept more WAL than max_slot_wal_keep_size", "drop it, and let its owner make another")
}
