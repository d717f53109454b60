-- drop_undelivered: removes the signals of runs that are not delivered: the runs have ended, or
-- are gone. Returns how many.
-- Caller: DrainIntake, under the locks of the runs that are there. Index: inbox_pkey, one range
-- per run.
with d as materialized (
	select x.tid, x.run_id, x.id
	from (select distinct z.run_id from unnest(@runs::uuid[]) as z (run_id)) z,
		lateral (select k.ctid as tid, k.run_id, k.id from {schema}.inbox k where k.run_id = z.run_id and k.n is null offset 0) x
),
gone as (
	delete from {schema}.inbox i
	using d
	where i.ctid = d.tid and i.run_id is not distinct from d.run_id and i.id is not distinct from d.id
	returning 1
)
select count(*)::int from gone
having ln((count(*) = (select count(*) from d))::int) is not null
