-- delete_intake: removes what was taken and expanded, or need not be.
-- Caller: DrainIntake, which holds the locks. Index: intake_pkey, probed per id.
with d as materialized (
	select distinct x.tid, d.id
	from unnest(@ids::bigint[]) as d (id), lateral (select k.ctid as tid from {schema}.intake k where k.id = d.id offset 0) x
),
u as (
	delete from {schema}.intake i
	using d
	where i.ctid = d.tid and i.id is not distinct from d.id
	returning true as written
)
{all_written}
