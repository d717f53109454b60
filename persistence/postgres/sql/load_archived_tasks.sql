-- load_archived_tasks: every task of archived runs, as load_tasks gives those of
-- others. Caller: the slow path, about runs that ended. Index: that of each span
-- of run_history.
select t.run_id, t.step, t.state, t.traits, t.flags, t.pending, t.parents, t.children, t.epoch, t.attempt, t.lost, t.pod,
	t.sleep, t.start_timeout, t.wake_at, t.class, t.error, t.handler, t.queue
from (select distinct id from unnest(@runs::uuid[]) as z (id) order by id) d,
	lateral (select * from {schema}.every_task k where k.run_id = d.id offset 0) t
