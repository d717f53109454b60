package wire

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-dev/troupe/internal/panics"
)

// Contain returns a tracer that passes everything on to the given one, and that
// does not panic when that does: pgx would lose the connection of the call, and
// its pool the place. The first panic is logged. Nil stays nil.
func Contain(tracer pgx.QueryTracer, log *slog.Logger) pgx.QueryTracer {
	if tracer == nil {
		return nil
	}
	return &containedTracer{tracer: tracer, log: log}
}

// containedTracer is as safe for concurrent use as the tracer.
type containedTracer struct {
	tracer pgx.QueryTracer
	log    *slog.Logger // nil: nothing is logged
	told   atomic.Bool
}

var (
	_ pgx.BatchTracer       = (*containedTracer)(nil)
	_ pgx.PrepareTracer     = (*containedTracer)(nil)
	_ pgx.ConnectTracer     = (*containedTracer)(nil)
	_ pgx.CopyFromTracer    = (*containedTracer)(nil)
	_ pgxpool.AcquireTracer = (*containedTracer)(nil)
	_ pgxpool.ReleaseTracer = (*containedTracer)(nil)
)

// contain ends a panic of the tracer's. It is deferred.
func (c *containedTracer) contain(ctx context.Context) {
	if reason := recover(); reason != nil && !c.told.Swap(true) && c.log != nil {
		c.log.LogAttrs(ctx, slog.LevelError, "the tracer of the pool panicked: what it would have traced is lost",
			slog.String("reason", panics.Text(reason)))
	}
}

// begin calls start, and returns the context that it returns, or ctx if it
// panics.
func (c *containedTracer) begin(ctx context.Context, start func() context.Context) (out context.Context) {
	defer func() {
		if out == nil {
			out = ctx
		}
	}()
	defer c.contain(ctx)
	return start()
}

// TraceQueryStart implements pgx.QueryTracer.
func (c *containedTracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return c.begin(ctx, func() context.Context { return c.tracer.TraceQueryStart(ctx, conn, data) })
}

// TraceQueryEnd implements pgx.QueryTracer.
func (c *containedTracer) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryEndData) {
	defer c.contain(ctx)
	c.tracer.TraceQueryEnd(ctx, conn, data)
}

// TraceBatchStart implements pgx.BatchTracer.
func (c *containedTracer) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	t, is := c.tracer.(pgx.BatchTracer)
	if !is {
		return ctx
	}
	return c.begin(ctx, func() context.Context { return t.TraceBatchStart(ctx, conn, data) })
}

// TraceBatchQuery implements pgx.BatchTracer.
func (c *containedTracer) TraceBatchQuery(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchQueryData) {
	if t, is := c.tracer.(pgx.BatchTracer); is {
		defer c.contain(ctx)
		t.TraceBatchQuery(ctx, conn, data)
	}
}

// TraceBatchEnd implements pgx.BatchTracer.
func (c *containedTracer) TraceBatchEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchEndData) {
	if t, is := c.tracer.(pgx.BatchTracer); is {
		defer c.contain(ctx)
		t.TraceBatchEnd(ctx, conn, data)
	}
}

// TracePrepareStart implements pgx.PrepareTracer.
func (c *containedTracer) TracePrepareStart(ctx context.Context, conn *pgx.Conn, data pgx.TracePrepareStartData) context.Context {
	t, is := c.tracer.(pgx.PrepareTracer)
	if !is {
		return ctx
	}
	return c.begin(ctx, func() context.Context { return t.TracePrepareStart(ctx, conn, data) })
}

// TracePrepareEnd implements pgx.PrepareTracer.
func (c *containedTracer) TracePrepareEnd(ctx context.Context, conn *pgx.Conn, data pgx.TracePrepareEndData) {
	if t, is := c.tracer.(pgx.PrepareTracer); is {
		defer c.contain(ctx)
		t.TracePrepareEnd(ctx, conn, data)
	}
}

// TraceConnectStart implements pgx.ConnectTracer.
func (c *containedTracer) TraceConnectStart(ctx context.Context, data pgx.TraceConnectStartData) context.Context {
	t, is := c.tracer.(pgx.ConnectTracer)
	if !is {
		return ctx
	}
	return c.begin(ctx, func() context.Context { return t.TraceConnectStart(ctx, data) })
}

// TraceConnectEnd implements pgx.ConnectTracer.
func (c *containedTracer) TraceConnectEnd(ctx context.Context, data pgx.TraceConnectEndData) {
	if t, is := c.tracer.(pgx.ConnectTracer); is {
		defer c.contain(ctx)
		t.TraceConnectEnd(ctx, data)
	}
}

// TraceCopyFromStart implements pgx.CopyFromTracer.
func (c *containedTracer) TraceCopyFromStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceCopyFromStartData) context.Context {
	t, is := c.tracer.(pgx.CopyFromTracer)
	if !is {
		return ctx
	}
	return c.begin(ctx, func() context.Context { return t.TraceCopyFromStart(ctx, conn, data) })
}

// TraceCopyFromEnd implements pgx.CopyFromTracer.
func (c *containedTracer) TraceCopyFromEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceCopyFromEndData) {
	if t, is := c.tracer.(pgx.CopyFromTracer); is {
		defer c.contain(ctx)
		t.TraceCopyFromEnd(ctx, conn, data)
	}
}

// TraceAcquireStart implements pgxpool.AcquireTracer.
func (c *containedTracer) TraceAcquireStart(ctx context.Context, pool *pgxpool.Pool, data pgxpool.TraceAcquireStartData) context.Context {
	t, is := c.tracer.(pgxpool.AcquireTracer)
	if !is {
		return ctx
	}
	return c.begin(ctx, func() context.Context { return t.TraceAcquireStart(ctx, pool, data) })
}

// TraceAcquireEnd implements pgxpool.AcquireTracer.
func (c *containedTracer) TraceAcquireEnd(ctx context.Context, pool *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	if t, is := c.tracer.(pgxpool.AcquireTracer); is {
		defer c.contain(ctx)
		t.TraceAcquireEnd(ctx, pool, data)
	}
}

// TraceRelease implements pgxpool.ReleaseTracer.
func (c *containedTracer) TraceRelease(pool *pgxpool.Pool, data pgxpool.TraceReleaseData) {
	if t, is := c.tracer.(pgxpool.ReleaseTracer); is {
		defer c.contain(context.Background())
		t.TraceRelease(pool, data)
	}
}
