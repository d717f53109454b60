-- runs: the final check. One row per run: how it ended, how often, how long its
-- first step waited (seconds; null: never started), and its output.
select r.id::text,
       r.tenant,
       r.state,
       (select count(*) from troupe.every_event e where e.run_id = r.id and e.step = -1 and e.kind in (35, 36, 37)),
       (select extract(epoch from min(e.at) - r.created_at)::float8
        from troupe.every_event e where e.run_id = r.id and e.step >= 0 and e.kind = 2),
       (select t.output from troupe.every_task t where t.run_id = r.id and t.step = d.output)
from troupe.every_run r
join troupe.workflow_definitions d on d.definition = r.definition
where d.name = $1
order by r.id
