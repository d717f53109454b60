-- drop_keys: removes the idempotency keys and the signals of the next runs of a span, and
-- says how far that went. Signals that are not delivered are dropped by their delivery.
-- Caller: DropHistory, behind the fence. Index: that of the span on (id, slice),
-- one range; run_keys_pkey, probed per key; inbox_pkey, one range per run.
with runs as materialized (
	select h.id, h.tenant, h.key, h.definition
	from {schema}.run_history h
	where h.class = @class::smallint and h.finished_at >= @since and h.finished_at < @until and h.id > @after::uuid and h.slice = 0
	order by h.id
	limit @limit::int
),
gone as (
	delete from {schema}.run_keys k
	using (
		select x.*
		from runs r,
			lateral (select w.name from {schema}.workflow_definitions w where w.definition = r.definition offset 0) d,
			lateral (
				select k.ctid as tid, k.run_id from {schema}.run_keys k
				where r.key is not null and k.tenant = r.tenant and k.workflow = d.name and k.key = r.key and k.run_id = r.id offset 0
			) x
	) x
	where k.ctid = x.tid and k.run_id is not distinct from x.run_id
	returning 1
),
boxes as (
	delete from {schema}.inbox i
	using (
		select x.* from runs r, lateral (select k.ctid as tid, k.run_id, k.id from {schema}.inbox k where k.run_id = r.id and k.n is not null offset 0) x
	) x
	where i.ctid = x.tid and i.run_id is not distinct from x.run_id and i.id is not distinct from x.id
)
select (select count(*)::int from runs), (select r.id from runs r order by r.id desc limit 1), (select count(*)::int from gone)
