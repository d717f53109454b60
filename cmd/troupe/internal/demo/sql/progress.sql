-- progress: the display, four times a second. Locks nothing.
select r.tenant,
       count(*),
       count(*) filter (where r.state = 10),
       count(*) filter (where r.state in (11, 13))
from troupe.workflow_runs r
join troupe.workflow_definitions d on d.definition = r.definition
where d.name = 'census'
group by r.tenant
