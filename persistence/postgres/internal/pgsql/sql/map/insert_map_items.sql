-- insert_map_items: the items of a map that begins its elements. Writes all of them, or fails.
-- Caller: the slow path, under the lock of its run.
with u as (
	insert into {schema}.map_items (run_id, step, item, payload)
	select @run::uuid, @step::int, d.item, d.payload from unnest(@items::int[], @payloads::bytea[]) as d (item, payload)
	returning 1
)
select ln((count(*) = cardinality(@items::int[]))::int) from u
