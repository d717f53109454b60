package readers

import (
	"cmp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-dev/troupe/explain"
	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
)

// queueNumber is a queue by its number and its name.
type queueNumber struct {
	number int16
	name   string
}

// tasks reads the tasks that have not ended, and returns the queues and the
// handlers of those that are ready.
func (r *situationReader) tasks(out *explain.Situation) (queues []queueNumber, handlers []int32, err error) {
	var (
		t                              explain.Task
		state                          int16
		queue                          queueNumber
		children                       []int32
		class, text                    *string
		queued, started, timer, expiry *time.Time
		since, childSince              *time.Time
		child                          pgtype.UUID
		childOf                        *string
		childState                     *int16
	)
	targets := []any{
		&t.Step, &t.Name, &state, &t.Pending, &children, &t.Attempt, &t.Lost, &class, &text, &t.Pod, &queue.number, &queue.name,
		&t.Handler, &queued, &started, &timer, &expiry, &t.Parked, &t.Signal, &t.SkipLate, &since, &t.Sent,
		&child, &childOf, &childState, &childSince, &t.Map.Items, &t.Map.Left, &t.Map.Open, &t.Map.Failed, &t.Element,
		&t.Machine, &t.Spawned, &t.Hears,
	}
	err = r.each("explain_tasks", pgsql.Named{"run": [16]byte(out.Run)}, targets, func() {
		t.State, t.Children, t.Queue = lifecycle.State(state), pgsql.UnpackChildren(children), queue.name
		t.Class, t.Error = pgsql.OrZero(class), pgsql.OrZero(text)
		t.QueuedAt, t.StartedAt, t.Timer, t.Expires = pgsql.OrZero(queued), pgsql.OrZero(started), pgsql.OrZero(timer), pgsql.OrZero(expiry)
		t.Since = pgsql.OrZero(since)
		t.Child = explain.ChildRun{
			Run: child.Bytes, Workflow: pgsql.OrZero(childOf), State: lifecycle.State(pgsql.OrZero(childState)), Since: pgsql.OrZero(childSince),
		}
		out.Tasks = append(out.Tasks, t)
		if t.State != lifecycle.Queued {
			return
		}
		if !slices.Contains(queues, queue) {
			queues = append(queues, queue)
		}
		if !slices.Contains(handlers, t.Handler) {
			handlers = append(handlers, t.Handler)
		}
	})
	for i := range out.Tasks { // elements come behind their map
		if t := &out.Tasks[i]; t.Element > 0 && t.State == lifecycle.Running {
			if at := slices.IndexFunc(out.Tasks, func(m explain.Task) bool { return m.Step == t.Element }); at >= 0 {
				out.Tasks[at].Map.Running++
			}
		}
	}
	slices.SortFunc(queues, func(a, b queueNumber) int { return cmp.Compare(a.name, b.name) })
	slices.Sort(handlers)
	return queues, handlers, err
}

// lines finds the ready tasks in their queues.
func (r *situationReader) lines(out *explain.Situation, queues []queueNumber) error {
	if len(queues) == 0 {
		return nil
	}
	numbers := make([]int16, len(queues))
	for i, q := range queues {
		numbers[i] = q.number
		out.Queues = append(out.Queues, explain.Queue{Name: q.name})
	}
	var number int16
	var length int
	var step, place, nth *int32
	var suspect *bool
	args := pgsql.Named{"queues": numbers, "most": explain.LineMax, "run": [16]byte(out.Run)}
	return r.each("explain_lines", args, []any{&number, &length, &step, &place, &nth, &suspect}, func() {
		at := slices.Index(numbers, number)
		if step == nil {
			out.Queues[at].Length = length
			return
		}
		for i := range out.Tasks {
			t := &out.Tasks[i]
			first := !t.Ready || int(*place) < t.Place
			if t.Step == *step && t.State == lifecycle.Queued && t.Queue == queues[at].name && first {
				t.Ready, t.Suspect, t.Place, t.Nth = true, *suspect, int(*place), int(*nth)
			}
		}
	})
}

// handlers reads when the handlers of ready tasks were last seen.
func (r *situationReader) handlers(out *explain.Situation, numbers []int32) error {
	if len(numbers) == 0 {
		return nil
	}
	var number int32
	var last *time.Time
	args := pgsql.Named{"handlers": numbers, "most": explain.StartsMax, "now": out.Now}
	return r.each("explain_seen", args, []any{&number, &last}, func() {
		out.Handlers = append(out.Handlers, explain.Handler{Number: number, LastSeen: pgsql.OrZero(last)})
	})
}

func (r *situationReader) pods(out *explain.Situation, numbers []int32) error {
	var p explain.Pod
	var queues []string
	var handlers []int32
	targets := []any{&p.ID, &p.Name, &p.Slots, &p.Dead, &p.Expires, &queues, &handlers, &p.Held, &p.Suspects, &p.Protocol}
	return r.each("explain_pods", pgsql.Named{"handlers": pgsql.OrEmpty(numbers)}, targets, func() {
		p.Queues, p.Handlers = slices.Clone(queues), slices.Clone(handlers)
		out.Pods = append(out.Pods, p)
	})
}
