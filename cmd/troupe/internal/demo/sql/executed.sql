-- executed: the final check. Attempts that each pod began.
select pod, count(*) from troupe.task_events where kind = 2 group by pod
