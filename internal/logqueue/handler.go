package logqueue

import (
	"context"
	"fmt"
	"log/slog"
)

// handler is the end of a queue that loggers use. WithAttrs and WithGroup of the embedder's
// handler are called at once. Enabled and Handle are called later by the queue: the caller
// may be an actor, which must not wait for the embedder's code, or end with it.
type handler struct {
	queue *Queue
	to    slog.Handler
}

var _ slog.Handler = handler{}

// Handler returns a handler whose Handle puts records into the queue, and never
// blocks. Those made of it share the queue.
func (q *Queue) Handler() slog.Handler { return handler{queue: q, to: q.options.Handler} }

// Enabled implements slog.Handler. The embedder's handler is asked later.
func (handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, record slog.Record) error {
	h.queue.put(entry{ctx: context.WithoutCancel(ctx), to: h.to, record: settledRecord(record)})
	return nil
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	settled := make([]slog.Attr, len(attrs))
	for i, attr := range attrs {
		settled[i] = settledAttr(attr)
	}
	return handler{queue: h.queue, to: h.to.WithAttrs(settled)}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{queue: h.queue, to: h.to.WithGroup(name)}
}

// settledRecord returns a copy of a record that holds nothing which its caller
// might change before the handler reads it.
func settledRecord(record slog.Record) slog.Record {
	settled := slog.NewRecord(record.Time, record.Level, record.Message, record.PC)
	record.Attrs(func(attr slog.Attr) bool {
		settled.AddAttrs(settledAttr(attr))
		return true
	})
	return settled
}

func settledAttr(attr slog.Attr) slog.Attr {
	value := attr.Value.Resolve()
	switch value.Kind() {
	case slog.KindGroup:
		members := value.Group()
		settled := make([]slog.Attr, len(members))
		for i, member := range members {
			settled[i] = settledAttr(member)
		}
		value = slog.GroupValue(settled...)
	case slog.KindAny:
		value = settledAny(value)
	case slog.KindBool, slog.KindDuration, slog.KindFloat64, slog.KindInt64, slog.KindString, slog.KindTime,
		slog.KindUint64, slog.KindLogValuer:
	}
	return slog.Attr{Key: attr.Key, Value: value}
}

// settledAny returns what does not change: nil and errors as they are, since
// handlers look into errors, and the text of everything else, as slog's
// TextHandler would write it.
func settledAny(value slog.Value) slog.Value {
	switch v := value.Any().(type) {
	case nil, error:
		return value
	default:
		return slog.StringValue(fmt.Sprintf("%+v", v))
	}
}
