-- lock: serialises what happens to runs. A statement of its own, so that the
-- next one sees what the previous holder wrote. $1 runs.
select count(*)
from (select distinct id from unnest($1::uuid[]) as z (id) order by id) d,
	lateral (select 1 from troupe.workflow_runs k where k.id = d.id offset 0 for no key update) x
