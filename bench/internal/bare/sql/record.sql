-- record: ends tasks, tells their children, grants those that became ready to
-- the same pod, ends runs. $1 runs, $2 steps, $3 epochs, $4 outputs, $5 pod,
-- $6 claim.
with clock as materialized (select clock_timestamp() as now),
done as (
	update troupe.tasks t
	set state = 10, epoch = t.epoch + 1, output = d.output, finished_at = clock.now
	from clock, (
		select d.epoch, d.output, x.tid
		from unnest($1::uuid[], $2::int[], $3::bigint[], $4::bytea[]) as d (run_id, step, epoch, output),
			lateral (select k.ctid as tid from troupe.tasks k where k.run_id = d.run_id and k.step = d.step offset 0) x
	) d
	where t.ctid = d.tid and t.state = 3 and t.epoch = d.epoch and t.pod = $5
	returning t.run_id, t.step, t.epoch, t.children
),
told as (
	select run_id, c >> 3 as step, count(*)::int as ended from done, unnest(children) as c group by 1, 2 order by 1, 2
),
moved as (
	update troupe.tasks t
	set pending = t.pending - k.ended, flags = t.flags | 8,
		state = case when t.pending = k.ended then 3 else t.state end,
		epoch = t.epoch + case when t.pending = k.ended then 2 else 0 end,
		pod = case when t.pending = k.ended then $5 else t.pod end,
		queued_at = case when t.pending = k.ended then clock.now end,
		started_at = case when t.pending = k.ended then clock.now end
	from clock, (
		select told.ended, x.tid from told,
			lateral (select k.ctid as tid from troupe.tasks k where k.run_id = told.run_id and k.step = told.step offset 0) x
	) k
	where t.ctid = k.tid
	returning t.run_id, t.step, t.epoch, t.state
),
claimed as (
	insert into troupe.claims (pod, claim, runs, steps, epochs)
	select $5, $6, array_agg(run_id), array_agg(step), array_agg(epoch) from moved where state = 3 having count(*) > 0
),
ended as (
	update troupe.workflow_runs r
	set remaining = r.remaining - s.sinks, state = case when r.remaining = s.sinks then 10 else r.state end,
		events = r.events + case when r.remaining = s.sinks then 1 else 0 end,
		finished_at = case when r.remaining = s.sinks then clock.now end
	from clock, (
		select s.sinks, x.tid
		from (select run_id, count(*)::int as sinks from done where cardinality(children) = 0 group by 1 order by 1) s,
			lateral (select k.ctid as tid from troupe.workflow_runs k where k.id = s.run_id offset 0) x
	) s
	where r.ctid = s.tid
	returning r.id, r.state, r.events
),
noted as (
	insert into troupe.task_events (run_id, step, n, kind, at, pod, attempt)
	select e.run_id, e.step, e.n, e.kind, clock.now, e.pod, e.attempt
	from clock, (
		select run_id, step, epoch as n, 3 as kind, null::bigint as pod, null::int as attempt from done
		union all
		select run_id, step, epoch - 1, 1, null, null from moved where state = 3
		union all
		select run_id, step, epoch, 2, $5, 1 from moved where state = 3
		union all
		select id, -1, events, 35, null, null from ended where state = 10
	) e
)
select (select count(*)::int from done), array(select run_id from moved where state = 3), array(select step from moved where state = 3),
	array(select epoch from moved where state = 3)
