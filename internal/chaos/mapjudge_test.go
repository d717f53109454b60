package chaos

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
)

// windowsSQL looks at all maps that have open elements, in one snapshot: how many, how many of
// them have as many open as their window, how many have more, and how many count otherwise than
// the tables do.
const windowsSQL = `select count(*)::int, (count(*) filter (where n = at_once))::int, (count(*) filter (where n > at_once))::int, (count(*) filter (where n <> open))::int
	from (
		select m.run_id, m.step, m.at_once, m.open, count(t.run_id) as n
		from troupe.maps m
			left join troupe.tasks t on t.run_id = m.run_id and t.owner = m.step and t.declared = m.step and t.state < 10
		group by m.run_id, m.step
	) counted`

// watchWindows looks at the maps in the tables all the time, until the function that it returns
// is called. That one enters the figures.
func (y *yard) watchWindows() (stop func()) {
	const lookEvery = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(y.t.Context())
	ended := make(chan error, 1)
	looks, full, wide, untrue := 0, 0, 0, 0
	go func() {
		for {
			var maps, filled, beyond, differ int
			if err := y.pool.QueryRow(ctx, windowsSQL).Scan(&maps, &filled, &beyond, &differ); err != nil {
				ended <- err
				return
			}
			looks += min(maps, 1)
			full += min(filled, 1)
			wide += beyond
			untrue += differ
			if pause(ctx, lookEvery) != nil {
				ended <- nil
				return
			}
		}
	}()
	return func() {
		y.t.Helper()
		cancel()
		if err := <-ended; err != nil && ctx.Err() == nil {
			require.NoError(y.t, err)
		}
		y.t.count("looks at the open elements of maps", looks)
		y.t.count("of these, found a full window", full)
		y.t.count("looks that found more open than the window", wide)
		y.t.count("looks at counters that disagree with the tables", untrue)
	}
}

// judgeMaps checks the maps of all runs, which have ended.
func (y *yard) judgeMaps() {
	y.t.Helper()
	entries := readLedgers(y.t, y.dir)
	y.judgeElements()
	y.judgeWindows(entries)
	keys, several := map[string]string{}, 0
	for _, e := range entries {
		if e.what != "element" {
			continue
		}
		if of, known := keys[e.detail]; known && of != e.run {
			several++
		}
		keys[e.detail] = e.run
	}
	y.t.count("idempotency keys of several elements", several)
	y.t.count("dead letters of elements", y.number(`select count(*)::int from troupe.dead_letters where declared is not null`))
	y.t.count("elements lost with a pod", y.number(`select count(*)::int from troupe.every_event where kind = 'lost' and name is not null`))
}

const elementsSQL = `select r.run::text, r.workflow, r.key, r.state, count(t.run_id)::int, count(distinct t.name)::int,
		(count(*) filter (where t.state = 'completed'))::int, (count(*) filter (where t.state = 'failed'))::int,
		coalesce(max(t.state), 0)::int, coalesce(min(t.state), 99)::int
	from troupe.run_list r
		left join troupe.every_task t on t.run_id = r.run and t.declared is not null
	where r.workflow like 'map-%'
	group by 1, 2, 3, 4`

// judgeElements compares the elements that the tables have with the items that runs had: each
// has one, unless the map has broken.
func (y *yard) judgeElements() {
	y.t.Helper()
	rows, err := y.pool.Query(y.t.Context(), coded(elementsSQL))
	require.NoError(y.t, err)
	var run, workflow, key, state string
	var elements, names, completed, failed, most, least int
	wrong, maps, broken, done, tolerated := 0, 0, 0, 0, 0
	_, err = pgx.ForEachRow(rows, []any{&run, &workflow, &key, &state, &elements, &names, &completed, &failed, &most, &least}, func() error {
		s := mapShapeOf(workflow)
		items := s.items(key)
		done += completed
		ok := names == elements && least >= int(lifecycle.Completed) // and all have ended
		switch allowed := int(s.tolerated * float64(items)); {
		case s.fails: // others may have begun with the last one that it allows, and are ended, too
			broken++
			ok = ok && state == "failed" && elements <= items && failed > allowed && failed <= allowed+s.window
		default:
			maps++
			tolerated += failed
			ok = ok && state == "completed" && elements == items && failed == s.rejected(key) && completed == items-failed
		}
		if !ok {
			wrong++
			y.t.note("%s %s of %d items is %s: %d elements, %d completed, %d failed", workflow, run, items, state, elements, completed, failed)
		}
		return nil
	})
	require.NoError(y.t, err)
	y.t.count("maps completed", maps)
	y.t.count("maps failed as they had to", broken)
	y.t.count("elements completed", done)
	y.t.count("elements failed and tolerated", tolerated)
	y.t.count("maps with other elements than those of their items", wrong)
}

// turn is an instant at which an execution of an element begins (1) or ends (-1).
type turn struct{ at, by int64 }

// judgeWindows counts how many executions of one map there were at once, by what pods have noted.
// An execution whose pod was killed lasts until the last note of that pod.
func (y *yard) judgeWindows(entries []entry) {
	y.t.Helper()
	type execution struct{ ledger, run, step string }
	open, last := map[execution]int{}, map[string]int64{}
	turns, windows := map[string][]turn{}, map[string]int64{}
	for _, e := range entries {
		if e.what != "enter" && e.what != "leave" {
			continue
		}
		var step string
		var window, at int64
		_, err := fmt.Sscanf(e.detail, "%s %d %d", &step, &window, &at)
		require.NoError(y.t, err, e.detail)
		x, by := execution{e.ledger, e.run, step}, int64(1)
		if e.what == "leave" {
			by = -1
		}
		open[x] += int(by)
		last[e.ledger], windows[e.run] = max(last[e.ledger], at), window
		turns[e.run] = append(turns[e.run], turn{at, by})
	}
	for x, n := range open {
		for range n {
			turns[x.run] = append(turns[x.run], turn{last[x.ledger], -1})
		}
	}
	wide, filled := 0, 0
	for run, all := range turns {
		switch most := mostAtOnce(all); {
		case most > windows[run]:
			wide++
			y.t.note("%s had %d executions at once: its window is %d", run, most, windows[run])
		case most == windows[run]:
			filled++
		}
	}
	y.t.count("maps with more executions at once than their window", wide)
	y.t.count("maps with as many executions at once as their window", filled)
}

// mostAtOnce is how many executions there were at most. Of those that end at the instant at which
// others begin, none counts with them.
func mostAtOnce(turns []turn) int64 {
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	var now, most int64
	for _, t := range turns {
		now += t.by
		most = max(most, now)
	}
	return most
}

// wrongMap is what is wrong with the end of a run with a map; "": nothing.
func wrongMap(s *mapShape, end lifecycle.State) string {
	want := lifecycle.Completed
	if s.fails {
		want = lifecycle.Failed
	}
	if end == want {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("a run of %s, meant to be %v, is %v", s.name, want, end))
}
