package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
)

// ClaimTasks implements persistence.Queue: one transaction, in one round trip unless
// it has to choose what it takes.
func (s *Store) ClaimTasks(ctx context.Context, request persistence.ClaimRequest) (persistence.Claimed, error) {
	queue, err := s.queue(ctx, request.Queue)
	if err != nil {
		return persistence.Claimed{}, err
	}
	request.Limit = min(request.Limit, persistence.ClaimMax)
	var out persistence.Claimed
	err = s.knowing(ctx, func() error {
		out, err = s.claimTasks(ctx, request, queue)
		return err
	})
	if err != nil {
		return persistence.Claimed{}, err
	}
	return out, nil
}

func (s *Store) claimTasks(
	ctx context.Context, request persistence.ClaimRequest, queue int16,
) (out persistence.Claimed, err error) {
	s.locking(ctx)
	foreign := len(s.passedOver(ctx)) > 0
	around := len(s.strained.known()) > 0
	chosen := around || request.TenantLimit > 0 // before what is next was tried
	err = retry(ctx, func(ctx context.Context) error {
		var err error
		if !chosen && (foreign || len(s.lost.list()) > 0) {
			if out, err = s.claimReadable(ctx, request, queue); err == nil && len(out.Grants) == 0 && out.Held > 0 {
				out, err = s.claimChosen(ctx, request, queue, persistence.InlinePayloadMax, true)
			}
			return err
		}
		err = inlining(func(limit int) error {
			var err error
			out, err = s.claimNext(ctx, request, queue, limit, around)
			return err
		})
		switch {
		case !unreadable(err):
		case request.TenantLimit == 0:
			out, err = s.claimReadable(ctx, request, queue)
		default:
			var passed int
			if passed, err = s.findLost(ctx, request, queue); err == nil {
				out, err = s.claimChosen(ctx, request, queue, persistence.InlinePayloadMax, around)
				out.Passed = passed
			}
		}
		return err
	})
	return out, err
}

// claimNext claims what is next, or what it chooses. Where nothing of it can be had
// since somebody holds the tasks, it goes around these.
func (s *Store) claimNext(
	ctx context.Context, request persistence.ClaimRequest, queue int16, inline int, around bool,
) (out persistence.Claimed, err error) {
	if around || request.TenantLimit > 0 {
		out, err = s.claimChosen(ctx, request, queue, inline, around)
	} else {
		out, err = s.claim(ctx, s.pool, request, queue, nil, inline)
	}
	switch {
	case err != nil || around || out.Held == 0:
		return out, err
	case len(out.Grants) > 0:
		out.Scanned = request.Limit // there may be more
		return out, nil
	}
	return s.claimChosen(ctx, request, queue, inline, true)
}

// inlineNothing is the limit of payloads where each attempt reads its own.
const inlineNothing = -1

// inlining reads grants with their payloads, up to a limit in bytes, or with none
// if one cannot be read: damage to one run's payloads is then the concern of that
// run, not of everybody whose turn it is beside it.
func inlining(read func(limit int) error) error {
	err := read(persistence.InlinePayloadMax)
	if unreadable(err) {
		err = read(inlineNothing)
	}
	return err
}

// claim grants what is ready, or only the places given, and loads what the
// attempts need, payloads up to a limit in bytes.
func (s *Store) claim(
	ctx context.Context, on querier, request persistence.ClaimRequest, queue int16, only []int64, inline int,
) (persistence.Claimed, error) {
	args := named{
		"pod": request.Pod, "claim": [16]byte(request.Claim), "queue": queue, "limit": request.Limit,
		"handlers": orEmpty(request.Handlers), "suspects": request.Suspects, "after": request.After, "inline_max": inline,
	}
	if only == nil && s.firsts.worthTrying(queue) {
		out, known, err := s.claimBy(ctx, on, "claim_first", args, request, inline)
		switch {
		case err != nil || known || out.Scanned == 0:
			return out, err
		case len(out.Grants) > 0:
			s.firsts.hit(queue)
			return out, nil
		}
		s.firsts.missed(queue)
	}
	args["only"], args["until"] = only, int64(math.MaxInt64)
	if only != nil { // no further than they stand
		args["after"], args["until"] = firstAndLast(only)
	}
	out, _, err := s.claimBy(ctx, on, "claim_tasks", args, request, inline)
	return out, err
}

// claimBy claims by one of the two statements that do. known reports whether the claim
// was made before.
func (s *Store) claimBy(
	ctx context.Context, on querier, statement string, args named, request persistence.ClaimRequest, inline int,
) (out persistence.Claimed, known bool, err error) {
	text, values := s.statements.bind(statement, args)
	rows, err := on.Query(ctx, text, values...)
	if err != nil {
		return out, false, err
	}
	g := &grantRows{s: s, claim: request.Claim, inline: int32(inline)}
	var alive bool
	var place *int64
	err = g.collect(rows, &out.Now, &alive, &known, &out.Scanned, &out.Discarded, &out.Held, &out.Lowest, &out.Frontier, &place)
	switch {
	case err != nil:
		return out, known, err
	case !alive:
		return out, known, s.notAlive(ctx, on, request.Pod)
	case known:
		out.Scanned = request.Limit // there may be more
		out.Grants, err = s.loadGrants(ctx, on, request.Pod, request.Claim, inline)
		return out, known, err
	}
	out.Grants, err = g.grants(ctx, on)
	return out, known, err
}

// loadGrants reads what a claim still holds, payloads up to a limit in bytes.
func (s *Store) loadGrants(
	ctx context.Context, on querier, pod int64, claim persistence.ClaimID, inline int,
) ([]persistence.Grant, error) {
	b := s.newBatch()
	g := s.queueGrants(b, pod, claim, inline)
	if err := send(ctx, on, b); err != nil {
		return nil, err
	}
	return g.grants(ctx, on)
}

// notAlive says why a pod could not be locked: it is dead, or somebody decides
// that right now.
func (s *Store) notAlive(ctx context.Context, on querier, pod int64) error {
	text, args := s.statements.bind("read_pod", named{"pod": pod})
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

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
