package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/quarantine"
	"github.com/troupe-dev/troupe/workflow"
)

// JoinPod implements persistence.Lease.
func (s *Store) JoinPod(ctx context.Context, pod persistence.PodInfo) (id int64, now time.Time, err error) {
	if err := s.RegisterAgain(ctx, pod.Queues); err != nil {
		return 0, time.Time{}, err
	}
	joining := pgsql.Named{
		"name": lifecycle.CleanText(pod.Name), "version": lifecycle.CleanText(pod.Version), "slots": pod.Slots,
		"ttl": pod.TTL.Microseconds(), "queues": pgsql.OrEmpty(pod.Queues), "handlers": pgsql.OrEmpty(pod.Handlers),
		"protocol": pod.Protocol, "names": persistence.PodNamesMax,
	}
	err = pgerr.Retry(ctx, func(ctx context.Context) error {
		joining["id"] = s.podID()
		text, args := s.Bind("join_pod", joining)
		return s.Conns.QueryRow(ctx, text, args...).Scan(&id, &now)
	})
	if err == nil && s.elsewhere(ctx, id) {
		_, _ = s.LeavePod(ctx, id) // else its lease ends by itself
		return 0, time.Time{}, errElsewhere
	}
	return id, now, err
}

// errElsewhere: renewals would find that the pod is dead, or steps would.
var errElsewhere = errors.New("the direct connection (Config.DirectURL) reaches another database than the pool that was given" +
	" to the engine, or a server that is behind it: have both name the same database")

// elsewhere reports whether the pod that has just joined is not found on the
// connection that renews its lease, or by the pool of the user, where they go
// somewhere else by their addresses. One that gives no answer says nothing.
func (s *Store) elsewhere(ctx context.Context, pod int64) bool {
	if !s.direct {
		return false
	}
	text, args := s.Bind("find_pod", pgsql.Named{"pod": pod})
	missed := func(ask func(ctx context.Context) error) bool {
		ctx, cancel := context.WithTimeout(ctx, elsewhereMax)
		defer cancel()
		return errors.Is(ask(ctx), pgx.ErrNoRows)
	}
	var id int64
	return missed(func(ctx context.Context) error {
		return s.lease.Use(ctx, func(on *pgx.Conn) error { return on.QueryRow(ctx, text, args...).Scan(&id) })
	}) || missed(func(ctx context.Context) error { return s.EmbedderPool.QueryRow(ctx, text, args...).Scan(&id) })
}

// elsewhereMax is how long each of the two has for its answer.
const elsewhereMax = 2 * time.Second

// podIDBits is how long ids of pods are: two that live at once never draw the
// same, and people can still read them.
const podIDBits = 48

// drawPodID returns an id for a pod that joins.
func drawPodID() int64 {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	return int64(binary.BigEndian.Uint64(random[:])>>(64-podIDBits)) + 1
}

// heldTask is a task that a pod holds by the tables.
type heldTask struct {
	pod   int64
	task  workflow.TaskID
	epoch int64
}

// heldTasks returns what pods hold, or blindly what they have claimed, without a
// look at the tasks, but of what rests.
func (s *Store) heldTasks(
	ctx context.Context, tx pgx.Tx, pods []int64, without quarantine.Exclusions, limit int, blind bool,
) ([]heldTask, error) {
	text, args := s.Bind("held_tasks", pgsql.Named{
		"pods": pods, "skip": pgsql.OrEmpty(without.Runs), "but": pgsql.OrEmpty(without.Counters), "foreign": pgsql.OrEmpty(without.Definitions), "limit": limit, "blind": blind,
	})
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (heldTask, error) {
		var h heldTask
		err := row.Scan(&h.pod, (*[16]byte)(&h.task.Run), &h.task.Step, &h.epoch)
		return h, err
	})
}

// takeBack ends grants, each with the same report, and sends b with it.
func (s *Store) takeBack(
	ctx context.Context, tx pgx.Tx, b *pgsql.Batch, taken []heldTask, report lifecycle.TaskReported,
) (*decisionTx, error) {
	p := s.newDecisionTx(tx)
	var wants []want
	at := map[workflow.RunID]int{}
	for _, h := range taken {
		i, ok := at[h.task.Run]
		if !ok {
			i = len(wants)
			at[h.task.Run] = i
			wants = append(wants, want{run: h.task.Run})
		}
		wants[i].steps = append(wants[i].steps, h.task.Step)
	}
	if err := p.load(ctx, wants); err != nil {
		return p, err
	}
	for _, h := range taken {
		if r := p.byID[h.task.Run]; r != nil {
			report.Step, report.Epoch, report.Pod = h.task.Step, h.epoch, h.pod
			r.facts = append(r.facts, report)
		}
	}
	return p, p.finish(ctx, b)
}
