-- After u (run_id, step, payload, done): payloads become the outputs of steps that are done, and
-- the outputs to be of others.
kept as (
	insert into {schema}.task_progress as p (run_id, step, progress)
	select u.run_id, u.step, coalesce(u.payload, ''::bytea) from u where u.step is not null and not u.done order by 1, 2
	on conflict (run_id, step) do update set progress = excluded.progress
	returning 1
),
given as (
	update {schema}.tasks t
	set output = k.payload
	from (
		select u.run_id, u.step, u.payload, x.tid
		from u, lateral (select k.ctid as tid from {schema}.tasks k where k.run_id = u.run_id and k.step = u.step offset 0) x
		where u.done
	) k
	where t.ctid = k.tid and t.run_id is not distinct from k.run_id and t.step is not distinct from k.step and t.state = 10
	returning 1
)
