package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	//go:embed sql/stream_settings.sql
	streamSettingsSQL string
	//go:embed sql/published.sql
	publishedSQL string
)

// openStream returns a connection on which the stream flows, and from where on. The
// caller hangs it up, and the slot goes with it.
func (a *Adapter) openStream(ctx context.Context) (*pgx.Conn, pglogrepl.LSN, error) {
	conn, err := a.connect(ctx, "stream", map[string]string{
		"replication":        "database",
		"wal_sender_timeout": milliseconds(a.config.WALSenderTimeout),
		"datestyle":          "ISO", // timestamps arrive as text
		"timezone":           "UTC",
		"statement_timeout":  "0", // the pool's are not meant for a session that waits
		"lock_timeout":       "0",
	})
	if err != nil {
		return nil, 0, classify(fmt.Errorf("connect the stream: %w", err))
	}
	start, err := a.startStream(ctx, conn.PgConn())
	if err != nil {
		hangUp(ctx, conn)
		return nil, 0, err
	}
	return conn, start, nil
}

func (a *Adapter) startStream(ctx context.Context, conn *pgconn.PgConn) (pglogrepl.LSN, error) {
	setup, cancel := context.WithTimeout(ctx, a.config.ConnectTimeout)
	defer cancel()
	if err := a.checkSettings(setup, conn); err != nil {
		return 0, err
	}
	slot := slotName(a.config.Schema, a.config.Pod())
	start, err := a.createSlot(setup, conn, slot)
	if err != nil {
		return 0, err
	}
	err = pglogrepl.StartReplication(setup, conn, slot, 0, pglogrepl.StartReplicationOptions{
		Mode: pglogrepl.LogicalReplication,
		PluginArgs: []string{
			"proto_version '1'", "messages 'true'",
			"publication_names " + literal(pgx.Identifier{Publication(a.config.Schema)}.Sanitize()),
		},
	})
	if err != nil {
		return 0, classify(fmt.Errorf("start the stream: %w", err))
	}
	return start, nil
}

// checkSettings finds out what the creation of a slot would not say, or not
// clearly: a missing publication only shows at the first change, and one that
// leaves something out never does.
func (a *Adapter) checkSettings(ctx context.Context, conn *pgconn.PgConn) error {
	query := strings.ReplaceAll(streamSettingsSQL, "{published}", a.publishedSQL())
	results, err := conn.Exec(ctx, query).ReadAll()
	if err != nil {
		return classify(fmt.Errorf("read the stream's settings: %w", err))
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != 3 {
		return errors.New("read the stream's settings: unexpected answer")
	}
	row := results[0].Rows[0]
	if level := string(row[0]); level != "logical" {
		return withoutLogical(level)
	}
	if err := a.published(string(row[2])); err != nil {
		return err
	}
	a.warned.unboundedSlots(string(row[1]))
	return nil
}

func (a *Adapter) publishedSQL() string {
	return strings.NewReplacer(
		"{publication}", literal(Publication(a.config.Schema)), "{schema_name}", literal(a.config.Schema),
	).Replace(publishedSQL)
}

// published returns why the publication is of no use; state is what publishedSQL
// says.
func (a *Adapter) published(state string) error {
	switch state {
	case "whole":
		return nil
	case "missing":
		return a.unpublished(nil)
	case "more":
		return unavailable(fmt.Sprintf("publication %q carries updates or deletes, which the server refuses then: it was changed by hand; run the migrations",
			Publication(a.config.Schema)), nil)
	}
	return unavailable(fmt.Sprintf("publication %q leaves out what pods wait for: it was changed by hand; run the migrations",
		Publication(a.config.Schema)), nil)
}

// createSlot returns where the log begins that the server keeps for the slot. It gives
// up soon: the server first waits for every transaction that has written already.
// Giving up cancels the statement and closes the connection, which leaves nothing
// behind.
func (a *Adapter) createSlot(ctx context.Context, conn *pgconn.PgConn, slot string) (pglogrepl.LSN, error) {
	limited, cancel := context.WithTimeout(ctx, a.config.SlotTimeout)
	defer cancel()
	created, err := pglogrepl.CreateReplicationSlot(limited, conn, slot, "pgoutput", pglogrepl.CreateReplicationSlotOptions{
		Temporary: true, Mode: pglogrepl.LogicalReplication, SnapshotAction: "NOEXPORT_SNAPSHOT",
	})
	switch {
	case err == nil:
		return pglogrepl.ParseLSN(created.ConsistentPoint)
	case limited.Err() != nil && ctx.Err() == nil:
		return 0, blocked(err)
	}
	return 0, classify(fmt.Errorf("create replication slot %s: %w", slot, err))
}
