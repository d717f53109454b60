-- insert_ready: puts tasks into their queues, at places that allot_blocks gave.
-- Writes all of them, or fails. Caller: the slow path and the intake. Index: ready_queue_pkey.
with u as (
	insert into {schema}.ready_queue (queue, band, fair_id, run_id, step, handler, suspect)
	select d.queue, 0, d.fair_id, d.run_id, d.step, d.handler, d.suspect
	from unnest(@queues::smallint[], @fair_ids::bigint[], @runs::uuid[], @steps::int[], @handlers::int[], @suspects::bool[])
		as d (queue, fair_id, run_id, step, handler, suspect)
	returning 1
)
select ln((count(*) = cardinality(@runs::uuid[]))::int) from u
