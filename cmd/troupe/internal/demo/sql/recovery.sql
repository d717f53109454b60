-- recovery: the final check. Seconds from the kill until the dead pod's first
-- task was taken back and until the last one ran again; null: none was lost.
select extract(epoch from min(lost.at) - $1)::float8,
       extract(epoch from max(again.at) - $1)::float8
from troupe.every_event lost
left join lateral (
	select min(e.at) as at
	from troupe.every_event e
	where e.run_id = lost.run_id and e.step = lost.step and e.kind = 2 and e.n > lost.n
) again on true
where lost.kind = 7
