-- purge_dead_letters: removes dead letters, by run and step; what another session
-- requeues right now stays. Returns how many, and their runs.
-- Caller: PurgeDeadLetters. Locks dead_letters, skip locked.
-- Index: dead_letters_pkey, from the start.
with l as materialized (
	select l.ctid as tid, l.run_id, l.step from {schema}.dead_letters l
	where (l.run_id, l.step) > (@after::uuid, @after_step::int) and {dead_filter}
	order by l.run_id, l.step
	limit @limit::int
	for update skip locked
),
gone as (
	delete from {schema}.dead_letters d
	using l
	where d.ctid = l.tid and d.run_id is not distinct from l.run_id and d.step is not distinct from l.step
	returning d.run_id
)
select count(*)::int, coalesce(array_agg(distinct g.run_id), '{}') from gone g
