-- start_runs: expanded runs that TriggerInTx stored: they get their tenant's
-- group, and a plain one starts. Writes all of them, or fails.
-- Caller: DrainIntake, under their locks. Index: workflow_runs_pkey, probed per
-- id.
with d as materialized (
	select * from unnest(@runs::uuid[], @groups::int[], @plain::bool[]) as d (id, group_id, plain)
),
u as (
	update {schema}.workflow_runs r
	set group_id = d.group_id, state = case when d.plain then 3 else r.state end, events = r.events + case when d.plain then 1 else 0 end,
		started_at = case when d.plain then @now::timestamptz end
	from (
		select d.*, x.tid
		from d, lateral (select k.ctid as tid from {schema}.workflow_runs k where k.id = d.id offset 0) x
	) d
	where r.ctid = d.tid and r.id is not distinct from d.id
	returning r.group_id = d.group_id and (r.state = 3 or not d.plain) as written
)
{all_written}
