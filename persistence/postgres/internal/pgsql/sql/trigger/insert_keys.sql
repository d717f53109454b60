-- insert_keys: ties keys to runs, all of them, or fails. Caller: TriggerRuns, under the locks
-- of the keys. Index: run_keys_pkey.
with u as (
	insert into {schema}.run_keys (tenant, workflow, key, input_hash, run_id)
	select d.tenant, d.workflow, d.key, d.input_hash, d.run_id
	from unnest(@tenants::text[], @workflows::text[], @keys::text[], @hashes::bytea[], @runs::uuid[])
		as d (tenant, workflow, key, input_hash, run_id)
	returning 1
)
select ln((count(*) = cardinality(@runs::uuid[]))::int) from u
