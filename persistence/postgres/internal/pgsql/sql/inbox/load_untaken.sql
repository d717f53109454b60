-- load_untaken: the delivered signals of runs that no step has taken, in the order of their
-- delivery.
-- Caller: the slow path, under the locks of the runs. Locks nothing. Index: inbox_pkey, one
-- range per run.
select k.run_id, k.id, k.n, k.name
from unnest(@runs::uuid[]) as d (run_id),
	lateral (select * from {schema}.inbox k where k.run_id = d.run_id and k.n is not null and k.taken_by is null offset 0) k
order by k.run_id, k.n
