-- read_elements: how far a map has come, the highest number that a task of its run may have, and
-- a page of the elements that have numbers of a range, with whether there are more of these. With
-- outputs the page ends with the element that makes it reach a number of bytes: what is not in
-- it is not read. No row: there is no such run; a row without an element: the page has none.
-- Trait 1024 is that of maps and their elements.
-- Caller: Elements. Index: tasks_pkey, the range, whatever the statistics say of how many rows
-- it has; or that of a span of run_history, of which the slices are read that the range is in.
{live_or_old},
r as materialized (
	select k.id, k.definition, k.tenant, k.dynamic_count from live k
	union all
	select h.id, h.definition, h.tenant, h.dynamic_count from old h where h.slice = 0
),
m as materialized (
	select k.items, k.items_left, k.open, k.failed from {schema}.maps k where k.run_id = @run and k.step = @step::int
	union all
	select h.maps[n.i][4], h.maps[n.i][5], h.maps[n.i][7], h.maps[n.i][8]
	from old h, generate_subscripts(h.maps, 1) as n (i)
	where h.slice = 0 and h.maps[n.i][1] = @step::int
),
e as (
	(
		select k.step, k.state, k.epoch, k.attempt, k.lost, k.pod, k.started_at, k.finished_at, k.class, k.error,
			octet_length(k.output) as size, k.output, k.name
		from {schema}.tasks k
		where k.run_id = @run and k.step > @after::int and k.step <= @until::int and k.owner = @step::int and k.traits & 1024 > 0
			and (cardinality(@states::smallint[]) = 0 or k.state = any(@states::smallint[]))
		order by k.step
		limit @limit::int + 1
	)
	union all
	(
		select u.*
		from (
				select h.* from old h
				where h.owners is not null and h.first <= @until::int and h.first + cardinality(h.states) - 1 > @after::int
				order by h.first
			) h,
			lateral (
				select h.first + u.nth::int - 1 as step, u.state, u.epoch, coalesce(u.attempt, 0), coalesce(u.lost, 0), u.pod, u.started_at, u.finished_at,
					u.class, u.error, coalesce(u.size, octet_length(u.output)), u.output, u.name
				from unnest(h.states, h.epochs, h.attempts, h.losts, h.pods, h.started, h.finished, h.classes, h.errors, h.sizes,
						case when @outputs::bool or h.sizes is null then h.outputs end, h.names, h.declared, h.owners)
						with ordinality as u (state, epoch, attempt, lost, pod, started_at, finished_at, class, error, size, output, name, declared, owner, nth)
				where u.owner = @step::int and u.declared = u.owner and h.first + u.nth - 1 > @after::int and h.first + u.nth - 1 <= @until::int
					and (cardinality(@states::smallint[]) = 0 or u.state = any(@states::smallint[]))
					and exists (
						select from {schema}.definition_steps s
						where s.definition = h.definition and s.step = @step::int and s.traits & 1024 > 0
					)
				limit @limit::int + 1
			) u
		limit @limit::int + 1
	)
),
page as materialized (
	select e.step, e.state, e.epoch, e.attempt, e.lost, e.pod, e.started_at, e.finished_at, e.class, e.error, e.size, e.name,
		case when @outputs::bool then e.output end as output
	from (
		select e.*, case when @outputs::bool then sum(coalesce(e.size, 0)) over (order by e.step rows unbounded preceding) - coalesce(e.size, 0) else 0 end as before,
			row_number() over (order by e.step) as nth
		from e
	) e
	where e.before < @most::bigint and e.nth <= @limit::int
)
select coalesce(m.items, 0), coalesce(m.items_left, 0), coalesce(m.open, 0), coalesce(m.failed, 0),
	coalesce((select d.steps from {schema}.workflow_definitions d where d.definition = r.definition) + r.dynamic_count, 2147483647),
	(select count(*) from e) > (select count(*) from page), t.step, t.name, t.state, t.epoch, t.attempt, t.lost, t.pod, p.name, t.output,
	coalesce(t.size, -1), t.class, t.error, w.wake_at, t.started_at, t.finished_at, k.run_id is not null
from r
	left join m on true
	left join page t on true
	left join lateral (select k.name from {schema}.pod_names k where k.pod = t.pod offset 0) p on true
	left join lateral (
		select k.wake_at from {schema}.durable_timers k
		where k.run_id = r.id and k.step = t.step and k.kind in (1, 2, 7) order by k.kind limit 1
	) w on true
	left join lateral (
		select k.run_id from {schema}.parked_tasks k where t.state = 2 and k.run_id = r.id and k.step = t.step offset 0
	) k on true
where @tenant::text = '' or r.tenant = @tenant::text
order by t.step
