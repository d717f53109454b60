-- tasks: the display, a few times a second. Locks nothing.
select t.pod,
       count(*) filter (where t.state = 3) as running,
       count(*) filter (where t.state = 5) as sleeping,
       coalesce(sum(t.lost), 0)::bigint as lost,
       count(*) filter (where t.lost > 0 and t.state = 10) as regained
from troupe.every_task t
group by t.pod
