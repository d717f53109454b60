-- lateness: the final check. Seconds between the instant a sleep was to end and
-- the transition that ended it.
select extract(epoch from woken.at - asleep.wake_at)::float8
from troupe.every_event asleep
join troupe.every_event woken on woken.run_id = asleep.run_id and woken.step = asleep.step and woken.kind = 12
where asleep.kind = 11
