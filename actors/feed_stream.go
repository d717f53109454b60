package actors

import (
	"context"
	"errors"
	"log/slog"

	"github.com/troupe-dev/troupe/cluster"
)

// read follows the replication stream, if there is one.
func (a *feed) read() {
	stream := a.stream
	if stream == nil || a.carryover.closing {
		return
	}
	rt, self := a.rt, a.self
	var buffer *wakeBuffer
	buffer = newWakeBuffer(func() { rt.send(self, &streamWoke{from: buffer}) })
	a.buffer = buffer
	a.slots++
	a.stopStream = rt.executor.Follow(self, "stream", func(ctx context.Context) any {
		err := containedLoop(func() error {
			return stream.Read(ctx, func() { rt.send(self, &streamUp{from: buffer}) }, buffer.add)
		})
		return &streamDown{from: buffer, err: err}
	})
}

func (a *feed) dropStream() {
	if a.stopStream != nil {
		a.stopStream()
	}
	a.stopStream, a.streaming, a.buffer = nil, false, nil
}

// onStreamUp sweeps: earlier commits are not replayed.
func (a *feed) onStreamUp(m *streamUp) {
	if m.from != a.buffer {
		return
	}
	a.streaming, a.streamFail, a.streamSaid = true, 0, ""
	a.rt.status.with(func(f *podFacts) { f.degraded = "" })
	a.replan()
	a.sweep()
}

// onStreamDown reads again later. Meanwhile the pod works without a stream.
func (a *feed) onStreamDown(m *streamDown) {
	a.slots = max(a.slots-1, 0)
	if a.carryover.closing {
		a.onClose()
		return
	}
	if m.from != a.buffer { // it was dropped on purpose
		return
	}
	a.dropStream()
	a.streamFail++
	if text := m.err.Error(); text != a.streamSaid {
		a.streamSaid = text
		a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "no replication stream, going on with notifications and sweeps",
			slog.Any("error", m.err))
	}
	if errors.Is(m.err, cluster.ErrStreamUnavailable) {
		a.rt.status.with(func(f *podFacts) { f.degraded = cluster.Shown(m.err) })
	}
	a.streamNext = true
	a.later(cluster.StreamRetry(m.err, a.streamFail), func() {
		a.streamNext = false
		a.replan()
	})
	a.replan()
}

func (a *feed) onStreamWoke(m *streamWoke) {
	if m.from != a.buffer {
		return
	}
	wakes := m.from.take()
	a.rt.recorder.add(MetricWakes, float64(len(wakes)), "stream")
	a.apply(wakes)
	if a.plan.Relay {
		a.outbox.Add(wakes...)
		a.send()
	}
}

// send notifies what waits, not more often than other connections can bear.
func (a *feed) send() {
	if a.outbox.Len() == 0 || a.sending.open() || a.armed {
		return
	}
	writers := 1
	if a.plan.Notify {
		writers = a.pods // each of the others may send as many
	}
	if wait := cluster.NotifyDelay(a.rt.now().Sub(a.sentAt), a.pods, writers); wait > 0 && !a.sentAt.IsZero() {
		a.armed = true
		a.later(wait, a.onSendDue)
		return
	}
	a.onSendDue()
}

func (a *feed) onSendDue() {
	a.armed = false
	if a.outbox.Len() == 0 || a.sending.open() {
		return
	}
	notice := cluster.Notice{Wakes: a.outbox.Drain(), From: a.rt.status.get().number}
	a.sentAt, a.sent = a.rt.now(), notice.Wakes
	a.relayed += int64(len(notice.Wakes))
	ask(&a.base, &a.sending, "notify", storeTimeout, func(ctx context.Context) (none, error) {
		return none{}, a.notifier.Notify(ctx, notice)
	}, a.onNotified)
}

// onNotified sends a notification that failed again. Its wakes count as sent
// all the same, so that the leader's next ping makes the others sweep.
func (a *feed) onNotified(_ none, err error) {
	a.unheard = errors.Is(err, cluster.ErrUnheard)
	a.tellLeader()
	if a.carryover.closing {
		a.sent = nil
		a.onClose()
		return
	}
	if wait, failed := a.sending.failed(a.rt, "notify", err); failed {
		a.outbox.Add(a.sent...)
		a.armed = true
		a.later(wait, a.onSendDue)
		a.replan()
	}
	a.sent = nil
	a.send()
}
