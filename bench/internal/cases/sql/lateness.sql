-- lateness: microseconds between the instant a sleep was to end and the
-- transition that ended it.
select (1e6 * extract(epoch from woken.at - asleep.wake_at))::bigint
from troupe.every_event asleep
join troupe.every_event woken on woken.run_id = asleep.run_id and woken.step = asleep.step and woken.kind = 12
where asleep.kind = 11
