-- progress: the display, a few times a second. Locks nothing.
select r.tenant,
       count(*),
       count(*) filter (where r.state = 10),
       count(*) filter (where r.state in (11, 13)),
       coalesce(sum(t.tasks), 0)::bigint,
       coalesce(sum(t.ended), 0)::bigint
from troupe.every_run r
join troupe.workflow_definitions d on d.definition = r.definition
left join (
	select run_id, count(*) as tasks, count(*) filter (where state >= 10) as ended
	from troupe.every_task
	group by run_id
) t on t.run_id = r.id
where d.name = 'census'
group by r.tenant
