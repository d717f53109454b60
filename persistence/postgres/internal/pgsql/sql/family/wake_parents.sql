-- wake_parents: asks the pods to tell runs that their child runs have ended, or are gone: of the
-- next steps behind a task that wait for one, if nothing else asks for it. Returns how many runs
-- these are, and the last step that it looked at; null: there are no others behind it.
-- Caller: WakeParents, behind the fence. Locks nothing. Index: tasks_with_child, a range;
-- workflow_runs_pkey, probed per step; intake_signals, all of it.
with page as materialized (
	select k.run_id, k.step, k.child, row_number() over (order by k.run_id, k.step) as nth
	from (
		select * from {schema}.tasks k
		where k.child is not null and k.state = 6 and (k.run_id, k.step) > (@run::uuid, @step::int)
		order by k.run_id, k.step limit @limit::int + 1
	) k
),
told as materialized (
	select p.run_id
	from page p
	where p.nth <= @limit::int and (select r.state < 10 from {schema}.workflow_runs r where r.id = p.child) is not true
		and not p.run_id in (select i.run_id from {schema}.intake i where i.signal)
	group by 1
),
asked as (
	insert into {schema}.intake (run_id, signal) select t.run_id, true from told t order by 1
	returning 1
)
select a.tasks::int, p.run_id, p.step
from (select count(*) as tasks from asked) a
	left join page p on p.nth = @limit::int and exists (select from page n where n.nth > @limit::int)
where ln((a.tasks = (select count(*) from told))::int) is not null
