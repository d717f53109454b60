package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/explain"
)

// hot are the tables that change all the time.
func hot() []string {
	return []string{"workflow_runs", "tasks", "ready_queue", "tenant_groups", "claims", "durable_timers", "pods", "frontiers", "task_progress"}
}

// deadRows looks at what vacuum leaves in the hot tables.
func deadRows(p *patient) error {
	var off bool
	if err := p.row(`select current_setting('autovacuum') = 'off' or current_setting('track_counts') = 'off'`, nil, &off); err != nil {
		return err
	}
	if off {
		p.problem("autovacuum is off: tables that change all the time grow without end", "set autovacuum = on and track_counts = on, and reload")
	}
	const query = `select s.relname, s.n_dead_tup, s.n_live_tup, coalesce(to_char(greatest(s.last_autovacuum, s.last_vacuum), 'YYYY-MM-DD HH24:MI'), 'never'),
			coalesce(c.reloptions @> array['autovacuum_enabled=false'] or c.reloptions @> array['autovacuum_enabled=off'], false), age(c.relfrozenxid)::bigint,
			current_setting('autovacuum_freeze_max_age')::bigint
		from pg_stat_all_tables s join pg_class c on c.oid = s.relid where s.schemaname = $1 and s.relname = any($2) order by 1`
	var table, last string
	var dead, live, age, most int64
	var disabled bool
	targets := []any{&table, &dead, &live, &last, &disabled, &age, &most}
	return p.each(query, []any{p.options.Schema, hot()}, targets, func() {
		if disabled {
			p.problem("autovacuum is off for %s", "alter table "+p.options.Schema+"."+table+" reset (autovacuum_enabled)", table)
		}
		if dead > p.options.limits.dead && dead > live {
			p.warn("%s has %d dead rows beside %d living ones; its last vacuum was %s", "see what holds vacuum back (check vacuum), then vacuum "+p.options.Schema+"."+table, table, dead, live, last)
		}
		if float64(age) > p.options.limits.frozen*float64(most) {
			p.problem("%s is not frozen for %d transactions: at two thousand million the server stops", "vacuum (freeze) it, and see what holds vacuum back", table, age)
		}
	})
}

// pods looks at the living pods and the leader.
func pods(p *patient) error {
	const query = `select count(*) filter (where not dead and expires_at > clock_timestamp()), count(*) filter (where dead or expires_at <= clock_timestamp()),
		coalesce(sum(slots) filter (where not dead and expires_at > clock_timestamp()), 0),
		coalesce((select l.holder from {schema}.leader_epoch l join {schema}.pods h on h.id = l.holder where not h.dead and h.expires_at > clock_timestamp()), 0),
		(select count(*) from {schema}.workflow_runs where state < 10),
		count(*) filter (where not dead and expires_at > clock_timestamp() + coalesce(ttl, '9 minutes') + interval '1 minute')
		from {schema}.pods`
	var living, dead, slots, ahead int
	var last, open int64
	if err := p.row(query, nil, &living, &dead, &slots, &last, &open, &ahead); err != nil {
		return err
	}
	p.fact("%s with %s; %s not ended", output.Several(living, "living pod", "living pods"), output.Several(slots, "slot", "slots"), output.Several(open, "run has", "runs have"))
	if living == 0 {
		if open == 0 { // without work no pod is needed
			return nil
		}
		return lifeless(p, output.Several(open, "run has", "runs have"))
	}
	if dead > 0 {
		p.warn("%s tasks or rows", "the leader takes over within seconds; if that does not help, look at its log",
			output.Several(dead, "pod is dead and still holds", "pods are dead and still hold"))
	}
	if ahead > 0 {
		p.warn("%s later than it can, as of a clock that was ahead: if its pod has died its tasks wait for that",
			"the leader shortens such a lease within the length of its own, unless its pod is of an older version; "+
				"update "+p.options.Schema+".pods set expires_at = now() + interval '1 minute' where expires_at > now() + interval '10 minutes' does so now, and living pods renew theirs",
			output.Several(ahead, "lease ends", "leases end"))
	}
	return led(p, last)
}

// lifeless says that no pod lives. A pod that waits to renew its lease looks as dead as one
// that is gone.
func lifeless(p *patient, open string) error {
	holders, err := p.holders()
	if err != nil {
		return err
	}
	for _, h := range holders {
		if !slices.Contains(strings.Split(h.tables, ", "), "pods") {
			continue
		}
		holder := fmt.Sprintf("pid %d", h.pid)
		if h.prepared != "" {
			holder = fmt.Sprintf("the prepared transaction %q", h.prepared)
		}
		p.problem("no pod is alive and %s not ended: renewals wait for rows of pods, which may be held by %s", "end that transaction, as the check locks says: pods that are there renew again by themselves", open, holder)
		return nil
	}
	p.problem("no pod is alive and %s not ended", "start a pod, or look why it does not start", open)
	return nil
}

// lateMax is how many late timers are counted.
const lateMax = 10_000

// timers looks for timers that are due and were not fired. Those of removed runs
// delay no others.
func timers(p *patient) error {
	const query = `select count(*), coalesce(extract(epoch from clock_timestamp() - greatest(min(wake_at), 'epoch')), 0)::float8 from (
		select t.wake_at from {schema}.durable_timers t where t.wake_at < clock_timestamp() - $1::interval
			and exists (select from {schema}.workflow_runs r where r.id = t.run_id offset 0)
		order by t.wake_at limit $2) t`
	var late int
	var longest float64
	if err := p.row(query, []any{p.options.limits.late, lateMax}, &late, &longest); err != nil {
		return err
	}
	if late > 0 {
		p.problem("%s due and not fired, the first for %s", "the leader fires them: see the check pods, and its log",
			atLeast(late, "timer is", "timers are"), explain.Span(time.Duration(longest*float64(time.Second))))
	}
	return nil
}

// atLeast is a count that ends at lateMax.
func atLeast(n int, one, many string) string {
	if n == lateMax {
		return "at least " + output.Several(n, one, many)
	}
	return output.Several(n, one, many)
}

// intake looks for runs that no pod takes up, and for signals that none delivers.
func intake(p *patient) error {
	var waiting int
	err := p.row(`select count(*) from {schema}.intake i join {schema}.workflow_runs r on r.id = i.run_id
		where i.signal is null and r.created_at < clock_timestamp() - $1::interval`, []any{p.options.limits.late}, &waiting)
	if err == nil && waiting > 0 {
		p.problem("%s in the intake", "pods take them up: see the check pods, and /readyz of each",
			output.Several(waiting, "run that was stored with a transaction waits", "runs that were stored with a transaction wait"))
	}
	if err != nil {
		return err
	}
	err = p.row(`select count(*) from (select distinct k.run_id from {schema}.intake k where k.signal) k
			join {schema}.inbox i on i.run_id = k.run_id and i.n is null
		where i.at < clock_timestamp() - $1::interval`, []any{p.options.limits.late}, &waiting)
	if err == nil && waiting > 0 {
		p.problem("%s to be delivered", "pods deliver them: see the check pods, and /readyz of each; troupe explain of the run says what locks it",
			output.Several(waiting, "signal waits", "signals wait"))
	}
	return err
}

// parked looks for tasks that were set aside because no living pod registers
// them.
func parked(p *patient) error {
	const query = `select h.workflow, h.step, k.count, exists (select from {schema}.pods p where not p.dead and h.handler = any(p.handlers))
		from (select handler, count(*) from {schema}.parked_tasks group by 1) k join {schema}.handlers h using (handler) order by k.count desc, 1, 2 limit 10`
	var workflow, step string
	var count int
	var registered bool
	return p.each(query, nil, []any{&workflow, &step, &count, &registered}, func() {
		if registered {
			p.warn("step %q of %q has %s although a living pod registers it", "the leader puts them back within a minute; if they stay, look at its log",
				step, workflow, output.Several(count, "parked task", "parked tasks"))
			return
		}
		p.warn("step %q of %q has %s: no living pod registers this version of the step", "start a pod that does, or cancel the runs",
			step, workflow, output.Several(count, "parked task", "parked tasks"))
	})
}

// orphans looks for runs under way of which no living pod registers any step,
// and for ready tasks that no pod can take. While no pod lives it is too early to say.
func orphans(p *patient) error {
	const query = `with registered as materialized (
			select distinct h as handler from {schema}.pods p, unnest(p.handlers) h where not p.dead and p.expires_at > clock_timestamp()
		), open as materialized (
			select r.definition, count(*) from {schema}.workflow_runs r where r.state < 10 group by 1
		)
		select o.definition, d.name is null, coalesce(d.name, ''), coalesce(encode(substr(d.hash, 1, 4), 'hex'), ''), o.count,
			(select count(*) from {schema}.definition_steps s where s.definition = o.definition and s.kind = 1),
			(select count(*) from {schema}.definition_steps s where s.definition = o.definition and s.kind = 1 and s.handler in (select handler from registered))
		from open o left join {schema}.workflow_definitions d using (definition)
		where exists (select from {schema}.pods where not dead and expires_at > clock_timestamp()) order by 5 desc`
	var name, hash string
	var number, runs, steps, known int
	var undefined bool
	return p.each(query, nil, []any{&number, &undefined, &name, &hash, &runs, &steps, &known}, func() {
		switch {
		case undefined:
			p.problem("%s under way of definition %d, which is not there: it was removed, and they can neither continue nor be canceled",
				"start the program that has the workflow, which registers it again", output.Several(runs, "run is", "runs are"), number)
		case known < steps:
			p.warn("%q (definition %s…) has %s under way, and living pods register %d of its %s",
				"keep a pod of that version until they have ended, or cancel them", name, hash, output.Several(runs, "run", "runs"), known, output.Several(steps, "step", "steps"))
		}
	})
}

// ids looks at how much is left of what is numbered.
func ids(p *patient) error {
	const query = `select (select coalesce(max(group_id), 0) from {schema}.tenants)::bigint, (select coalesce(max(queue), 0) from {schema}.queues)::bigint,
		(select coalesce(max(span), 0) from {schema}.spans)::bigint, (select coalesce(max(handler), 0) from {schema}.handlers)::bigint`
	var groups, queues, spans, handlers int64
	if err := p.row(query, nil, &groups, &queues, &spans, &handlers); err != nil {
		return err
	}
	p.fact("%s, %s, %s", output.Several(groups, "tenant", "tenants"), output.Several(queues, "queue", "queues"), output.Several(handlers, "registered step", "registered steps"))
	for _, id := range []struct {
		what       string
		used, most int64
	}{{"tenants", groups, p.options.limits.groups}, {"queues", queues, 1<<15 - 1}, {"spans of history", spans, 1<<31 - 1}, {"registered steps", handlers, 1<<31 - 1}} {
		if float64(id.used) > p.options.limits.used*float64(id.most) {
			p.warn("%d of %d numbers of %s are used; beyond it new ones are refused", "use another schema for new ones", id.used, id.most, id.what)
		}
	}
	return nil
}
