wanted as materialized (
	select distinct z.run_id, z.step from unnest(@runs::uuid[], @steps::int[]) as z (run_id, step)
),
needed as materialized ( -- these tasks, their children, their map or machine, for -1 all that have not ended; and what is of the run itself
	select w.run_id, w.step from wanted w
	union
	select w.run_id, -1 from wanted w
	union
	select w.run_id, c >> 3
	from wanted w,
		lateral (
			select case when k.traits & 5120 > 0 and k.owner is not null then array[k.owner << 3] else k.children end as children
			from {schema}.tasks k where k.run_id = w.run_id and k.step = w.step offset 0
		) t,
		unnest(t.children) as c
	union
	select w.run_id, t.step
	from (select z.run_id from wanted z where z.step = -1) w,
		lateral (select k.step from {schema}.tasks k where k.run_id = w.run_id and k.state < 10 offset 0) t
)
