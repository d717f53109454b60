-- save_progress: what attempts said last, for the next attempt; only about
-- tasks that are, or were last, this pod's.
-- Caller: record and renewal, for attempts that reported some.
-- Index: task_progress_pkey, and tasks_pkey probed per task.
with d as materialized (
	select d.run_id, d.step, d.progress
	from unnest(@runs::uuid[], @steps::int[], @epochs::bigint[], @progress::bytea[]) as d (run_id, step, epoch, progress),
		lateral (select k.pod, k.epoch from {schema}.tasks k where k.run_id = d.run_id and k.step = d.step offset 0) t
	where t.pod = @pod and t.epoch = d.epoch
	order by 1, 2
),
u as (
	insert into {schema}.task_progress as p (run_id, step, progress) select d.* from d
	on conflict (run_id, step) do update set progress = excluded.progress
	returning run_id, step, progress
)
select ln(((select count(*) from u join d using (run_id, step, progress)) = (select count(*) from d))::int)
