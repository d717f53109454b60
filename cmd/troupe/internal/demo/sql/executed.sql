-- executed: the final check. Attempts that each pod began.
select pod, count(*) from troupe.every_event where kind = 2 group by pod
