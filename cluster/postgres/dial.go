package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/troupe-dev/troupe/internal/wire"
)

// closeTimeout bounds the goodbye of a dedicated connection. The server ends
// the session anyway once the socket is closed.
const closeTimeout = time.Second

// target returns where dedicated connections go, with the session's settings.
func (a *Adapter) target(ctx context.Context, role string, settings map[string]string) (*pgx.ConnConfig, error) {
	config := a.pool.Config()
	target := config.ConnConfig
	if a.config.DirectURL != "" {
		direct, err := pgx.ParseConfig(a.config.DirectURL)
		if err != nil {
			return nil, fmt.Errorf("direct url: %w", err)
		}
		direct.Tracer = target.Tracer
		target = direct
	} else if before := wire.ContainBeforeConnect(a.config.BeforeConnect); before != nil {
		if err := before(ctx, target); err != nil {
			return nil, err
		}
	}
	if settings["replication"] != "" {
		target.AfterConnect = nil // a replication connection takes no ordinary queries
	}
	wire.ContainHooks(target)
	share(target, a.config.ConnectTimeout)
	wire.Prepare(target, a.config.Lineage)
	if target.RuntimeParams == nil {
		target.RuntimeParams = map[string]string{}
	}
	target.RuntimeParams["application_name"] = a.sessionName(role)
	target.RuntimeParams["client_encoding"] = "UTF8" // names in notifications are, whatever the role is set to
	for name, value := range settings {
		target.RuntimeParams[name] = value
	}
	return target, nil
}

// connectMax bounds the time that all addresses together have.
const connectMax = 20 * time.Second

// share gives each address its part of connectMax: one that is gone, as the first
// is after a failover, takes nothing from the others. usual is for addresses that
// say nothing about it (connect_timeout).
func share(target *pgx.ConnConfig, usual time.Duration) {
	if target.ConnectTimeout <= 0 {
		target.ConnectTimeout = usual
	}
	target.ConnectTimeout = min(target.ConnectTimeout, connectMax/time.Duration(1+len(target.Fallbacks)))
}

// sessionName says in pg_stat_activity what a connection is for.
func (a *Adapter) sessionName(role string) string {
	return fmt.Sprintf("troupe %s %s %d", role, a.config.Schema, a.config.Pod())
}

func (a *Adapter) connect(ctx context.Context, role string, settings map[string]string) (*pgx.Conn, error) {
	target, err := a.target(ctx, role, settings)
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, target)
}

// settle makes settings in a session that has begun.
func settle(ctx context.Context, conn *pgx.Conn, settings map[string]string) error {
	names := slices.Sorted(maps.Keys(settings))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = settings[name]
	}
	_, err := conn.Exec(ctx, "select set_config(name, value, false) from unnest($1::text[], $2::text[]) as s (name, value)", names, values)
	return err
}

// crowded reports whether a server refused a connection because it has none to give.
func crowded(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == stateTooManyConnections
}

// hangUp closes a dedicated connection, whatever state it is in and whether or
// not the caller's context has ended.
func hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = conn.Close(ctx) // there is nothing left to do about it
	select {
	case <-conn.PgConn().CleanupDone(): // a canceled query's goroutine included
	case <-ctx.Done():
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
