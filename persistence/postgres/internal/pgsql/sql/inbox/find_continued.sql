-- find_continued: the runs that idempotency keys name, or those that continue them, in the
-- order asked.
-- Caller: whatever sends signals by key. Locks nothing. Index: run_keys_pkey and
-- dead_letters_pkey, probed per key and run.
with recursive line (ord, run_id, next) as (
	select d.ord, k.run_id, n.run_id
	from unnest(@tenants::text[], @workflows::text[], @keys::text[]) with ordinality as d (tenant, workflow, key, ord),
		lateral (
			select k.run_id from {schema}.run_keys k
			where k.tenant = d.tenant and k.workflow = d.workflow and k.key = d.key offset 0
		) k
		left join lateral (
			select l.requeued_as as run_id from {schema}.dead_letters l
			where l.run_id = k.run_id and l.requeued_as is not null order by l.requeued_as desc limit 1
		) n on true
	union -- a circle, which nothing makes, ends
	select l.ord, l.next, n.run_id
	from line l
		left join lateral (
			select k.requeued_as as run_id from {schema}.dead_letters k
			where k.run_id = l.next and k.requeued_as is not null order by k.requeued_as desc limit 1
		) n on true
	where l.next is not null
)
select l.ord::int, l.run_id from line l where l.next is null
