-- has_work_ended: the runs that can be archived among the next ones, oldest first,
-- and how far the look went: up to last if it found as many as it may, else up
-- to seen, or to the end. One statement, so that there is no transaction where
-- there is nothing to archive. Runs that were canceled before they were
-- expanded wait until they need not be.
-- Caller: ArchiveRuns. Locks nothing. Index: workflow_runs_pkey, one range;
-- intake is small, and read for the rare run without a group only.
with clock as materialized (select clock_timestamp() as now),
seen as materialized (
	select r.id, r.state, r.finished_at, r.definition, r.group_id
	from {schema}.workflow_runs r
	where r.id > @after::uuid
	order by r.id
	limit @looks::int
),
ended as materialized (
	select s.id, s.finished_at, d.class
	from clock, seen s,
		lateral (select k.class from {schema}.workflow_definitions k where k.definition = s.definition offset 0) d
	where s.state >= 10 and s.finished_at <= clock.now - @age::bigint * interval '1 microsecond'
		and (s.group_id > 0 or not exists (select from {schema}.intake i where i.run_id = s.id and i.signal is null))
	order by s.id
	limit @limit::int
)
select clock.now, exists (select from {schema}.leader_epoch l where l.epoch = @epoch),
	(select count(*)::int from seen), (select s.id from seen s order by s.id desc limit 1),
	array(select e.id from ended e order by e.id), array(select e.class from ended e order by e.id),
	array(select e.finished_at from ended e order by e.id)
from clock
