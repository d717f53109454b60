-- history: the final check. One row per task: how often each kind of transition
-- is in its events. Kinds are lifecycle.EventKind.
select e.run_id::text,
       s.name,
       count(*) filter (where e.kind = 2) as starts,
       count(*) filter (where e.kind in (7, 8)) as losses,
       count(*) filter (where e.kind = 5) as retries,
       count(*) filter (where e.kind = 3) as completed,
       count(*) filter (where e.kind = 11) as slept,
       count(*) filter (where e.kind = 12) as woken
from troupe.every_event e
join troupe.every_run r on r.id = e.run_id
join troupe.workflow_definitions d on d.definition = r.definition
join troupe.definition_steps s on s.definition = r.definition and s.step = e.step
where d.name = 'census' and e.step >= 0
group by e.run_id, s.name
