-- load_undelivered: the signals of runs that are not delivered, run by run in the order asked,
-- in the order in which they were sent. until: those that were sent until an instant, null: all.
-- Caller: DrainIntake and FireTimers, under the locks of the runs: others store such signals,
-- and only this transaction delivers them. Locks nothing. Index: inbox_pkey, one range per run.
select k.run_id, k.id, k.name
from unnest(@runs::uuid[], @untils::timestamptz[]) with ordinality as d (run_id, until, ord),
	lateral (
		select * from {schema}.inbox k where k.run_id = d.run_id and k.n is null and (d.until is null or k.at <= d.until) offset 0
	) k
order by d.ord, k.seq
limit @most::int
