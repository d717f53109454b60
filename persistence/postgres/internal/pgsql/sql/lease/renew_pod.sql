-- renew_pod: extends a lease, stores progress, compares what the pod holds with
-- the tables and forgets claims of which nothing is held. No row: dead.
-- Caller: the pulse; one statement, so that an idle pod costs one. Locks pods
-- (no key update, which does not wait for the key share of records) and the
-- claims that it forgets (skip locked). Index: the primary keys, probed per
-- task. What is looked up in what this statement has read is hashed (not in): a
-- join of the two would compare each with each.
--
-- counted and ended: of how many tasks of a claim the caller knows that they have ended.
-- A claim that has no more is not looked at task by task: at full load a pod has claimed a
-- hundred thousand tasks since its last renewal, and holds a few thousand.
--
-- What was granted under an epoch and is not held is never held again. But a
-- record that is sent again may add tasks to its claim meanwhile, of which this
-- statement's snapshot knows nothing: only a claim is forgotten that is as long
-- as it was.
with clock as materialized (select clock_timestamp() as now),
pod as (
	update {schema}.pods p
	set expires_at = clock.now + lease.ttl, ttl = lease.ttl, load = @load::smallint
	from clock, (select @ttl::bigint * interval '1 microsecond') as lease (ttl)
	where p.id = @pod and not p.dead
	returning p.id, p.expires_at
),
crowd as materialized (
	select count(*)::int as pods, count(*) filter (where p.slots > 0)::int as executing,
		count(*) filter (where l.load < 2)::int as waiting,
		count(*) filter (where l.load = 0)::int as idle, count(*) filter (where l.load = 0 and p.id < @pod)::int as place
	from {schema}.pods p, lateral (select case when p.id = @pod then @load::smallint else p.load end as load) l
	where not p.dead
),
held as materialized (
	select d.ord, d.run_id, d.step, d.epoch, d.progress, r.canceling, t.mine, t.stopped
	from unnest(@runs::uuid[], @steps::int[], @epochs::bigint[], @progress::bytea[]) with ordinality
			as d (run_id, step, epoch, progress, ord)
		left join lateral (
			select k.canceling from {schema}.workflow_runs k where k.id = d.run_id offset 0
		) r on true
		left join lateral (
			select k.state = 3 and k.pod = @pod and k.epoch = d.epoch as mine, k.flags & 512 > 0 and k.traits & 4096 > 0 as stopped
			from {schema}.tasks k where k.run_id = d.run_id and k.step = d.step offset 0
		) t on true
),
own as materialized (
	select c.claim, g.run_id, g.step, g.epoch
	from {schema}.claims c,
		unnest(c.runs, c.steps, c.epochs) as g (run_id, step, epoch),
		lateral (select k.state, k.pod, k.epoch from {schema}.tasks k where k.run_id = g.run_id and k.step = g.step offset 0) t
	where c.pod = @pod
		and (c.claim, cardinality(c.epochs)) not in (select e.claim, e.tasks from unnest(@counted::uuid[], @ended::int[]) as e (claim, tasks))
		and t.state = 3 and t.pod = c.pod and t.epoch = g.epoch
),
kept as (
	insert into {schema}.task_progress as p (run_id, step, progress)
	select distinct on (h.run_id, h.step) h.run_id, h.step, h.progress
	from held h where h.mine and h.progress is not null and exists (select from pod)
	order by 1, 2, h.ord desc
	on conflict (run_id, step) do update set progress = excluded.progress
),
idle as materialized (
	select c.claim, cardinality(c.epochs) as length
	from {schema}.claims c
	where c.pod = @pod and c.claim not in (select o.claim from own o) and exists (select from pod)
),
ended as materialized (
	select i.claim
	from idle i,
		lateral (
			select k.claim from {schema}.claims k
			where k.pod = @pod and k.claim = i.claim and cardinality(k.epochs) = i.length offset 0
			for update skip locked
		) x
),
forgotten as (
	delete from {schema}.claims c using ended e where c.pod = @pod and c.claim = e.claim
),
unheld as materialized (
	select o.run_id, o.step, o.epoch
	from own o
	where (o.run_id, o.step, o.epoch) not in (select h.run_id, h.step, h.epoch from held h)
	order by 1, 2
)
select clock.now, pod.expires_at,
	crowd.pods, crowd.executing, crowd.waiting, crowd.idle, crowd.place,
	array(select distinct h.run_id from held h where h.mine and h.canceling order by 1),
	array(select h.ord::int from held h where h.mine and h.stopped order by 1), -- flag 512 is FlagStop: of what a machine has started
	array(select h.ord::int from held h where h.mine is not true order by 1),
	array(select run_id from unheld), array(select step from unheld), array(select epoch from unheld),
	array(select distinct o.claim from own o)
from clock, pod, crowd
