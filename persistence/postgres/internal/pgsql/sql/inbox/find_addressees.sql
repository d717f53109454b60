-- find_addressees: what is to be known of the runs that signals are for, in the order asked:
-- whose they are, whether they have ended, whether they have a signal of the same id, and how
-- many that no step has taken, or the machine has not handled, up to about a number.
-- Caller: whatever sends signals. Locks nothing. Index: workflow_runs_pkey, probed per run, and
-- those of spans of run_history only for ids that are as old as something archived; inbox_by_number,
-- two ranges per run; inbox_pkey, probed per signal; machines_pkey, probed per run. In a serializable transaction that would lock the
-- pages of the index against the signals of other transactions: the inbox is not read there,
-- and not bounded.
with d as materialized (
	select * from unnest(@runs::uuid[], @ids::text[]) with ordinality as d (run_id, id, ord)
),
each as materialized (select distinct d.run_id from d),
live as materialized (
	select k.id, k.tenant, k.definition, k.state >= 10 as ended
	from each e, lateral (select * from {schema}.workflow_runs k where k.id = e.run_id offset 0) k
),
found as materialized (
	select l.* from live l
	union all
	select h.id, h.tenant, h.definition, true
	from (
			select array_agg(e.run_id) as runs
			from {schema}.archived_up_to a, each e
			where e.run_id <= a.id and not exists (select from live l where l.id = e.run_id)
		) o,
		lateral (select k.id, k.tenant, k.definition from {schema}.history_of(o.runs) k where k.slice = 0 offset 0) h
),
counted as materialized (
	select f.*, (
		select count(*)::int
		from (
			(select from {schema}.inbox k where k.run_id = f.id and k.n is null and not f.ended and {may_read} limit @most::int)
			union all
			(
				select from {schema}.inbox k
				where k.run_id = f.id and k.n > coalesce(m.taken, 0) and k.taken_by is null and not f.ended and {may_read} limit @most::int
			)
		) k
	) as untaken
	from found f left join lateral (select k.taken from {schema}.machines k where k.run_id = f.id and {may_read} offset 0) m on true
)
select d.ord::int, c.tenant, c.definition, c.ended, c.untaken, s.id is not null
from d join counted c on c.id = d.run_id
	left join lateral (select k.id from {schema}.inbox k where k.run_id = d.run_id and k.id = d.id and {may_read} offset 0) s on true
order by d.ord
