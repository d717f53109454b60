package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
)

// ClaimTasks implements persistence.Queue: one transaction, in one round trip unless
// it has to choose what it takes.
func (s *Store) ClaimTasks(ctx context.Context, request persistence.ClaimRequest) (persistence.Claimed, error) {
	queue, err := s.Queue(ctx, request.Queue())
	if err != nil {
		return persistence.Claimed{}, err
	}
	request.Limit = min(request.Limit, persistence.ClaimMax)
	var out persistence.Claimed
	err = s.WithRegistry(ctx, func() error {
		out, err = s.claimTasks(ctx, request, queue)
		return err
	})
	if err != nil {
		return persistence.Claimed{}, err
	}
	s.claims.Granted(request.Pod, request.Claim, out.Grants)
	return out, nil
}

func (s *Store) claimTasks(
	ctx context.Context, request persistence.ClaimRequest, queue int16,
) (out persistence.Claimed, err error) {
	s.askForDefinitions(ctx)
	s.placeBacklogs(ctx)
	var left bool
	err = pgerr.Retry(ctx, func(ctx context.Context) error {
		for range claimTries {
			err := inlining(func(limit int) error {
				var err error
				out, left, err = s.claimNext(ctx, request, queue, limit)
				return err
			})
			if !pgerr.Unreadable(err) {
				return err
			}
			if err := s.findUnreadable(ctx, request, queue, err); err != nil {
				return err
			}
		}
		return nil
	})
	if left {
		out.Again = max(s.quarantine.Again(), quarantine.AgainMin)
	}
	return out, err
}

// claimTries bounds how often one claim looks for what cannot be read.
const claimTries = 20

// claimNext claims what is next, or, where something rests, is locked or is limited, what
// it chooses. left reports whether something was left out that may be claimed later.
func (s *Store) claimNext(
	ctx context.Context, request persistence.ClaimRequest, queue int16, inline int,
) (out persistence.Claimed, left bool, err error) {
	without := s.quarantine.Excluded()
	chosen := without.Any() || s.quarantine.Skipping()
	if !chosen && request.TenantLimit == 0 {
		var locked int
		out, locked, err = s.claim(ctx, s.Conns, request, queue, nil, inline)
		switch {
		case err != nil || locked == 0:
			return out, false, err
		case len(out.Grants) > 0:
			out.Scanned = request.Limit // there may be more
			return out, true, nil
		}
		chosen = true // all that comes next is locked
	}
	out, left, err = s.claimChosen(ctx, request, queue, inline, without, chosen)
	return out, left || without.Any(), err
}

// inlineNothing is the limit of payloads where each attempt reads its own.
const inlineNothing = -1

// inlining reads grants with their payloads, up to a limit in bytes, or with none
// if one cannot be read: damage to one run's payloads is then the concern of that
// run, not of everybody whose turn it is beside it.
func inlining(read func(limit int) error) error {
	err := read(persistence.InlinePayloadMax)
	if pgerr.Unreadable(err) {
		err = read(inlineNothing)
	}
	return err
}

// claim grants what is ready, or only the places given, and loads what the attempts need,
// payloads up to a limit in bytes. It also returns how many rows it has passed over
// because they are locked.
func (s *Store) claim(
	ctx context.Context, on pgsql.Querier, request persistence.ClaimRequest, queue int16, only []int64, inline int,
) (out persistence.Claimed, locked int, err error) {
	args := pgsql.Named{
		"pod": request.Pod, "claim": [16]byte(request.Claim), "queue": queue, "limit": request.Limit,
		"handlers": pgsql.OrEmpty(request.Handlers), "suspects": request.Suspects, "after": request.After, "inline_max": inline,
	}
	if only == nil && s.claimFirst.WorthTrying(queue) {
		out, known, locked, err := s.claimBy(ctx, on, "claim_first", args, request, inline)
		switch {
		case err != nil || known || out.Scanned == 0:
			return out, locked, err
		case len(out.Grants) > 0:
			s.claimFirst.Hit(queue)
			return out, locked, nil
		}
		s.claimFirst.Missed(queue)
	}
	args["only"], args["until"] = only, int64(math.MaxInt64)
	if only != nil { // no further than they stand
		args["after"], args["until"] = firstAndLast(only)
	}
	out, _, locked, err = s.claimBy(ctx, on, "claim_tasks", args, request, inline)
	return out, locked, err
}

// claimBy claims by one of the two statements that do. known reports whether the claim
// was made before.
func (s *Store) claimBy(
	ctx context.Context, on pgsql.Querier, statement string, args pgsql.Named, request persistence.ClaimRequest, inline int,
) (out persistence.Claimed, known bool, locked int, err error) {
	text, values := s.Bind(statement, args)
	rows, err := on.Query(ctx, text, values...)
	if err != nil {
		return out, false, 0, err
	}
	g := &grantRows{s: s, claim: request.Claim, inline: int32(inline), most: &out.Scanned}
	var alive bool
	err = g.collect(rows, &out.Now, &alive, &known, &out.Scanned, &out.Discarded, &locked, &out.Lowest, nil)
	switch {
	case err != nil:
		return out, known, locked, err
	case !alive:
		return out, known, locked, s.notAlive(ctx, on, request.Pod)
	case known:
		out.Scanned = request.Limit // there may be more
		out.Grants, err = s.loadGrants(ctx, on, request.Pod, request.Claim, inline)
		return out, known, locked, err
	}
	out.Grants, err = g.grants(ctx, on)
	return out, known, locked, err
}

// loadGrants reads what a claim still holds, payloads up to a limit in bytes.
func (s *Store) loadGrants(
	ctx context.Context, on pgsql.Querier, pod int64, claim persistence.ClaimID, inline int,
) ([]persistence.Grant, error) {
	b := s.NewBatch()
	g := s.queueGrants(b, pod, claim, inline)
	if err := pgsql.Send(ctx, on, b); err != nil {
		return nil, err
	}
	return g.grants(ctx, on)
}

// notAlive says why a pod could not be locked: it is dead, or that is
// being decided right now.
func (s *Store) notAlive(ctx context.Context, on pgsql.Querier, pod int64) error {
	text, args := s.Bind("read_pod", pgsql.Named{"pod": pod})
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	living, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
	if err != nil {
		return err
	}
	if living {
		return persistence.ErrConflict
	}
	return persistence.ErrPodDead
}

// firstAndLast returns the first and the last of some places in order; of none,
// nothing is between them.
func firstAndLast(places []int64) (first, last int64) {
	if len(places) == 0 {
		return 1, 0
	}
	return places[0], places[len(places)-1]
}
