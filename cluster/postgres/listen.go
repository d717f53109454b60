package postgres

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/troupe-dev/troupe/cluster"
)

// Listen implements cluster.Listener.
func (a *Adapter) Listen(ctx context.Context, connected func(), sink func(cluster.Notice)) error {
	conn, err := a.connect(ctx, "listener", map[string]string{
		"idle_session_timeout": "0", // a role's default would end it whenever nothing happens
	})
	if err != nil {
		return fmt.Errorf("connect the listener: %w", err)
	}
	defer hangUp(ctx, conn)
	if err := a.subscribe(ctx, conn); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	connected()
	strange := false
	for {
		n, err := a.hear(ctx, conn)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		notice, written, err := parsePayload(n.Payload)
		if err != nil {
			if !strange { // once for each connection: a sender of these does not stop
				a.config.Logger.LogAttrs(ctx, slog.LevelWarn, "notification ignored",
					slog.String("channel", a.channel), slog.Int("sender_pid", int(n.PID)), slog.Any("error", err))
			}
			strange = true
			continue
		}
		if written != 0 {
			a.written.Store(written)
		}
		sink(notice)
	}
}

// hear waits for a notification. After a while without one it asks the server whether it
// is still there: what a proxy or a load balancer has forgotten stays open, and silent. A
// leader that lives is heard more often than that, so the question is rare.
func (a *Adapter) hear(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	for {
		quiet, cancel := context.WithTimeout(ctx, a.config.ListenQuiet)
		n, err := conn.WaitForNotification(quiet)
		late := quiet.Err() != nil
		cancel()
		if err == nil || !late || ctx.Err() != nil {
			return n, err
		}
		if err := a.answers(ctx, conn); err != nil {
			return nil, fmt.Errorf("the connection has gone silent: %w", err)
		}
	}
}

func (a *Adapter) answers(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, a.config.ListenQuiet)
	defer cancel()
	return conn.Ping(ctx)
}

func (a *Adapter) subscribe(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, a.config.ConnectTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, "listen "+pgx.Identifier{a.channel}.Sanitize())
	return err
}
