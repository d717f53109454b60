-- claim: grants ready tasks in the order of their places.
-- $1 how many, $2 pod, $3 claim.
with clock as materialized (select clock_timestamp() as now),
chosen as materialized (
	select q.ctid as tid, q.fair_id, q.run_id, q.step
	from troupe.ready_queue q where q.queue = 1 and q.band = 0
	order by q.fair_id
	limit $1
	for update skip locked
),
gone as (
	delete from troupe.ready_queue q using chosen c where q.ctid = c.tid
),
granted as (
	update troupe.tasks t
	set state = 3, epoch = t.epoch + 1, pod = $2, started_at = clock.now
	from clock, (
		select x.tid from chosen c,
			lateral (select k.ctid as tid from troupe.tasks k where k.run_id = c.run_id and k.step = c.step offset 0) x
	) s
	where t.ctid = s.tid and t.state = 2
	returning t.run_id, t.step, t.epoch, t.attempt
),
claimed as (
	insert into troupe.claims (pod, claim, runs, steps, epochs)
	select $2, $3, array_agg(run_id), array_agg(step), array_agg(epoch) from granted having count(*) > 0
),
frontier as (
	update troupe.frontiers f
	set block = m.block
	from (select max(fair_id) / 2097152 as block from chosen) m
	where f.queue = 1 and f.band = 0 and f.block < m.block
),
noted as (
	insert into troupe.task_events (run_id, step, n, kind, at, pod, attempt)
	select g.run_id, g.step, g.epoch, 2, clock.now, $2, g.attempt + 1 from granted g, clock
)
select run_id, step, epoch from granted
