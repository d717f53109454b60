package readers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/clock"
	"github.com/troupe-dev/troupe/persistence"
)

// sharedCounts are answers that calls share which ask the same. It is safe for concurrent use.
type sharedCounts struct {
	mu      sync.Mutex
	answers map[string]*sharedCount
}

// sharedMax bounds the questions of which answers are kept.
const sharedMax = 256

// sharedCount is the answer to one question.
type sharedCount struct {
	turn   chan struct{} // held while the answer is read or made
	at     time.Time
	counts []persistence.RunCount
}

// counts returns an answer that is no older than the filter says, or makes one. While it is
// made, calls that ask the same wait for it.
func (s *sharedCounts) counts(
	ctx context.Context, filter persistence.CountFilter, count func(context.Context) ([]persistence.RunCount, error),
) ([]persistence.RunCount, error) {
	if filter.MaxAge <= 0 {
		return count(ctx)
	}
	answer := s.answer(filter)
	select {
	case answer.turn <- struct{}{}:
		defer func() { <-answer.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if now := (clock.System{}).Now(); answer.at.IsZero() || now.Sub(answer.at) > filter.MaxAge {
		counts, err := count(ctx)
		if err != nil {
			return nil, err
		}
		answer.counts, answer.at = counts, now
	}
	return slices.Clone(answer.counts), nil
}

func (s *sharedCounts) answer(filter persistence.CountFilter) *sharedCount {
	filter.MaxAge = 0
	question := fmt.Sprintf("%+v", filter)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers[question] == nil {
		if s.answers == nil || len(s.answers) >= sharedMax {
			s.answers = map[string]*sharedCount{} // calls that wait for one keep it
		}
		s.answers[question] = &sharedCount{turn: make(chan struct{}, 1)}
	}
	return s.answers[question]
}
