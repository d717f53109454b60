-- explain_lines: how long queues are, up to a number, and where the tasks of a
-- run stand in them.
-- Caller: Situation. Index: ready_queue_pkey, one range per queue.
with q as materialized (
	select q.queue, q.run_id, q.step, q.suspect,
		row_number() over (partition by q.queue order by q.fair_id) as place,
		row_number() over (partition by q.queue, q.fair_id % 2097152 / 2 order by q.fair_id) as nth
	from unnest(@queues::smallint[]) as w (queue),
		lateral (
			select * from {schema}.ready_queue k where k.queue = w.queue and k.band = 0 order by k.fair_id limit @most::int
		) q
)
select w.queue, (select count(*) from q where q.queue = w.queue)::int, null::int, null::int, null::int, null::bool
from unnest(@queues::smallint[]) as w (queue)
union all
select q.queue, 0, q.step, q.place::int, q.nth::int, q.suspect from q where q.run_id = @run
