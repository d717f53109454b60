-- load_grants: what a claim still holds, with all that an attempt needs: the
-- outcomes of its parents in the order of the parameters, or for a failure
-- handler those of every failed step.
-- Caller: claim and record, when they are asked again. Locks nothing. Index: the
-- primary keys, probed per task and per parent; for failure handlers one range
-- per run.
select {attempt_columns}
from {schema}.claims c,
	unnest(c.runs, c.steps, c.epochs) with ordinality as u (run_id, step, epoch, ord),
	lateral (
		select * from {schema}.tasks k where k.run_id = u.run_id and k.step = u.step offset 0
	) g,
{attempt}
	left join lateral (
		select k.progress from {schema}.task_progress k where k.run_id = g.run_id and k.step = g.step offset 0
	) p on true
where c.pod = @pod and c.claim = @claim and g.state = 3 and g.epoch = u.epoch and g.pod = c.pod
order by u.ord
