package history

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// sealAfter is how long a span of runs has been over when it is sealed: until
	// then runs that ended in it are still on their way.
	sealAfter = 10 * time.Minute
	// sealsMax bounds the spans that one call seals: each is a transaction.
	sealsMax = 16
)

// sealSpans notes which runs may be in spans that are over, so that no other run is
// looked for there, and reports whether there are more such spans.
func (s *History) sealSpans(ctx context.Context, epoch int64, all *spans) (more bool, err error) {
	sealed := 0
	for i := range all.list {
		one := &all.list[i]
		if one.sealed || one.Until.Add(sealAfter).After(all.now) {
			continue
		}
		if sealed == sealsMax {
			return true, nil
		}
		done, err := s.leadHistory(ctx, epoch, func(ctx context.Context, tx pgx.Tx) error { return s.sealSpan(ctx, tx, one) })
		if err != nil || !done { // vacuum may keep the lock for long
			return false, err
		}
		sealed++
		one.sealed = true
	}
	return false, nil
}

// sealSpan notes the least and the highest run in a span. The trigger comes first: it
// widens that range when a run is added later, by a pod of any version.
func (s *History) sealSpan(ctx context.Context, tx pgx.Tx, one *Span) error {
	const sql = `create trigger sealed after insert on {table} for each row execute function {schema}.widen_span(%[1]d);
		update {schema}.spans s
		set lowest = coalesce((select k.id from {table} k order by k.id limit 1), 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
			highest = coalesce((select k.id from {table} k order by k.id desc limit 1), '00000000-0000-0000-0000-000000000000')
		where s.span = %[1]d`
	return s.define(ctx, tx, fmt.Sprintf(sql, one.number), one)
}
