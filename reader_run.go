package troupe

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// EventPosition says which events of a run were seen: those of the run itself, and of
// each step, up to a number. Nil is before all events. Nothing is ever committed behind
// a position. It has a text of its own, for cursors: see [ParseEventPosition].
type EventPosition = persistence.EventPosition

// ParseEventPosition reads what EventPosition.String returned. "" is before all
// events.
func ParseEventPosition(text string) (EventPosition, error) {
	return persistence.ParseEventPosition(text)
}

// PayloadDefault is how many bytes Reader.Payload brings unless told otherwise.
const PayloadDefault = 1 << 20

// Payload is an input, or the output of a step, as the codec encoded it.
type Payload struct {
	Data      []byte // the first bytes of it
	Size      int    // bytes of all of it
	Truncated bool   // Data is not all of it
}

// Payload reads the output of a step, or the input of the run for step "": at most
// limit bytes of it (0: [PayloadDefault]). A step that did not complete gives
// [ErrStepNotEnded], [ErrStepSkipped], [ErrStepCanceled] or a [*StepError], an unknown
// one [ErrStepNotFound], an unknown run [ErrRunNotFound]. A sleep has an empty output.
func (r *Reader) Payload(ctx context.Context, tenant string, run RunID, step string, limit int) (Payload, error) {
	if limit < 0 {
		return Payload{}, fmt.Errorf("read payload: limit is %d: use 0 or more", limit)
	}
	if limit == 0 {
		limit = PayloadDefault
	}
	return readFrom(ctx, r, func(ctx context.Context, from reading) (Payload, error) {
		head, err := from.store.Payload(ctx, from.tenant(tenant), run, step, min(limit, payloadLimitMax))
		if err != nil {
			return Payload{}, fmt.Errorf("read payload of step %q of run %v: %w", step, run, err)
		}
		if step != "" {
			task := persistence.TaskRow{Name: step, State: head.State, Class: head.Class, Error: head.Error}
			if head.State == 0 {
				task.State = lifecycle.Pending
			}
			if err := notCompleted(&task); err != nil {
				return Payload{}, err
			}
		}
		size := max(head.Size, 0)
		return Payload{Data: head.Data, Size: size, Truncated: len(head.Data) < size}, nil
	})
}

// Events reads at most limit events of a run (0, and at most: 1000) that a position does not
// cover, oldest first, and the position behind them. Asked again from there it brings
// what has been added since, and skips nothing that another process commits late. With
// fewer events than limit there are no more so far.
func (r *Reader) Events(ctx context.Context, tenant string, run RunID, seen EventPosition, limit int) ([]Event, EventPosition, error) {
	if limit < 0 {
		return nil, seen, fmt.Errorf("read events: limit is %d: use 0 or more", limit)
	}
	next := seen
	list, err := readFrom(ctx, r, func(ctx context.Context, from reading) (list []Event, err error) {
		list, next, err = from.events(ctx, tenant, run, seen, limit)
		return list, err
	})
	if err != nil {
		return nil, seen, err
	}
	return list, next, nil
}

func (from *reading) events(ctx context.Context, tenant string, run RunID, seen EventPosition, limit int) ([]Event, EventPosition, error) {
	page, err := from.store.Events(ctx, from.tenant(tenant), run, seen, limit)
	if err != nil || len(page) == 0 {
		return nil, seen, err
	}
	names, err := from.store.StepNames(ctx, from.tenant(tenant), run)
	if err != nil {
		return nil, seen, err
	}
	list := make([]Event, len(page))
	for i, event := range page {
		name := ""
		if event.Step >= 0 && int(event.Step) < len(names) { // a definition may have been removed
			name = names[event.Step]
		}
		list[i] = publicEvent(event, name)
	}
	return list, seen.After(page), nil
}
