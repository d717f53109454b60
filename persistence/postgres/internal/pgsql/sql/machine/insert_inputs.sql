-- insert_inputs: the inputs of what machines start: each is the item of the task's own number in
-- the table of the items of maps. They are written once, read with a grant and removed with the
-- run, as those are, so that another table would be one more for every run that is archived.
-- Writes all of them, or fails.
-- Caller: the slow path, under the locks of their runs.
with u as (
	insert into {schema}.map_items (run_id, step, item, payload)
	select d.run_id, 0, d.step, d.payload from unnest(@runs::uuid[], @steps::int[], @payloads::bytea[]) as d (run_id, step, payload)
	returning 1
)
select ln((count(*) = cardinality(@runs::uuid[]))::int) from u
