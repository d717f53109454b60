package actors

import (
	"context"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/actors/internal/vitals"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// history is when the housekeeper archives, drops, purges, and looks for child runs whose end
// their parents have not heard of.
type history struct {
	rotateAt  time.Time
	archiveAt time.Time
	dropAt    time.Time
	purgeAt   time.Time
	wakeAt    time.Time
	woken     workflow.TaskID // how far the look at the steps with child runs has come
	after     workflow.RunID  // how far the walk through the runs has come
	moved     int             // by this walk
	limit     int             // of one call; smaller after one that failed
}

// newHistory begins at once with the spans for new events, and soon with the rest: pods
// start first, but short terms must do the work, too.
func newHistory(now time.Time) history {
	return history{limit: persistence.ArchiveMax, rotateAt: now, archiveAt: now.Add(archiveEvery), dropAt: now.Add(2 * archiveEvery), purgeAt: now.Add(3 * archiveEvery), wakeAt: now.Add(wakeEvery)}
}

// hold removes nothing for its age before an instant.
func (h *history) hold(until time.Time) {
	for _, at := range []*time.Time{&h.dropAt, &h.purgeAt} {
		if at.Before(until) {
			*at = until
		}
	}
}

func (h *history) next() time.Time {
	next := h.rotateAt
	for _, at := range []time.Time{h.archiveAt, h.dropAt, h.purgeAt, h.wakeAt} {
		if at.Before(next) {
			next = at
		}
	}
	return next
}

// nextHistory does the work that has been due for longest, so that no kind of backlog
// delays another, and reports whether anything was due.
func (a *housekeeper) nextHistory(now time.Time) bool {
	epoch, retention := a.epoch, a.rt.config.Retention
	store := a.store
	// A clock that is ahead by more than a retention would drop history for good. It may
	// be set back.
	clock := a.rt.clockSteps()
	by := clock.UpperBound(now)
	if !clock.Large.IsZero() && now.Sub(clock.Large) < vitals.ClockStepHold {
		a.history.hold(clock.Large.Add(vitals.ClockStepHold))
	}
	due := a.history.next()
	if due.After(now) {
		return false
	}
	switch due {
	case a.history.rotateAt:
		ask(&a.base, &a.call, "rotate_events", storeTimeout, func(ctx context.Context) (persistence.Rotated, error) {
			return store.RotateEvents(ctx, epoch, eventSpan)
		}, a.onRotated)
	case a.history.archiveAt:
		archive := persistence.Archive{
			After: a.history.after, Age: archiveAge, Limit: a.rt.batch("archive one", a.history.limit), Retention: retention,
		}
		ask(&a.base, &a.call, "archive_runs", storeTimeout, func(ctx context.Context) (persistence.Archived, error) {
			return store.ArchiveRuns(ctx, epoch, archive)
		}, a.onArchived)
	case a.history.dropAt:
		ask(&a.base, &a.call, "drop_history", storeTimeout, func(ctx context.Context) (persistence.Dropped, error) {
			return store.DropHistory(ctx, epoch, retention, by)
		}, a.onDropped)
	case a.history.wakeAt:
		after := a.history.woken
		ask(&a.base, &a.call, "wake_parents", storeTimeout, func(ctx context.Context) (persistence.Woken, error) {
			return store.WakeParents(ctx, epoch, after, wakeBatch)
		}, a.onWoken)
	default:
		return a.purge(now, by)
	}
	return true
}

// purge removes old dead letters; without a retention for them it does the next work that
// is due.
func (a *housekeeper) purge(now, by time.Time) bool {
	store, filter := a.store, persistence.DeadFilter{OlderThan: a.rt.config.DeadLetterRetention, By: by}
	a.history.purgeAt = now.Add(dropEvery)
	if filter.OlderThan <= 0 {
		return a.nextHistory(now)
	}
	ask(&a.base, &a.call, "purge_dead_letters", storeTimeout, func(ctx context.Context) (int, error) {
		return store.PurgeDeadLetters(ctx, filter)
	}, a.onPurged)
	return true
}

func (a *housekeeper) onPurged(count int, err error) {
	if a.failed("purge_dead_letters", err, nil) {
		return
	}
	if count == persistence.PurgeMax {
		a.history.purgeAt = a.rt.now().Add(historyPause)
	}
	a.next()
}

func (a *housekeeper) onRotated(rotated persistence.Rotated, err error) {
	a.history.rotateAt = a.rt.now().Add(rotateEvery)
	if a.failed("rotate_events", err, nil) {
		return
	}
	a.rt.recorder.add(MetricEventsKept, float64(rotated.Kept))
	if rotated.More {
		a.history.rotateAt = a.rt.now().Add(historyPause)
	}
	a.next()
}

// onArchived continues the walk. After a walk that moved nothing the next one comes later;
// while many runs end, calls follow each other at once.
func (a *housekeeper) onArchived(archived persistence.Archived, err error) {
	now := a.rt.now()
	a.history.archiveAt = now.Add(archiveIdle)
	h := &a.history
	limit := h.limit
	if a.failed("archive_runs", err, nil) {
		h.limit = max(limit/2, 1) // it may have been too much for one statement
		return
	}
	for _, run := range archived.Unreadable {
		a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "an ended run cannot be read, and is not moved into history: check the disk for data loss",
			slog.String("run_id", run.String()))
	}
	if refused := archived.Refused; len(refused) > 0 {
		a.rt.log.LogAttrs(context.Background(), slog.LevelWarn, "ended runs are not moved into history: a constraint or trigger on the engine's tables rejects them",
			slog.Int("runs", len(refused)), slog.String("run_id", refused[0].String()), slog.Any("error", archived.RefusedFor))
	}
	count := archived.Count
	h.limit = min(2*limit, persistence.ArchiveMax)
	a.rt.recorder.add(MetricArchived, float64(count))
	h.after, h.moved = archived.Next, h.moved+count
	switch {
	case h.after.IsZero() && h.moved > 0:
		h.archiveAt, h.moved = now.Add(archiveEvery), 0
	case h.after.IsZero():
	case count < limit:
		h.archiveAt = now.Add(historyPause)
	default:
		h.archiveAt = now
	}
	a.next()
}

func (a *housekeeper) onDropped(dropped persistence.Dropped, err error) {
	a.history.dropAt = a.rt.now().Add(dropEvery)
	if a.failed("drop_history", err, nil) {
		return
	}
	a.rt.recorder.add(MetricSpansDropped, float64(dropped.Spans))
	if dropped.Spans > 0 {
		a.rt.log.LogAttrs(context.Background(), slog.LevelInfo, "history dropped", slog.Int("spans", dropped.Spans))
	}
	if dropped.More {
		a.history.dropAt = a.rt.now().Add(historyPause)
	}
	a.next()
}

func (a *housekeeper) onWoken(woken persistence.Woken, err error) {
	a.history.wakeAt = a.rt.now().Add(wakeEvery)
	if a.failed("wake_parents", err, nil) {
		return
	}
	a.rt.announce(woken.Wake)
	if a.history.woken = woken.Next; woken.Next != (workflow.TaskID{}) {
		a.history.wakeAt = a.rt.now().Add(historyPause)
	}
	a.next()
}
