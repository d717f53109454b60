-- insert_keys: ties keys to runs. Caller: TriggerRuns and TriggerInTx, under
-- the locks of the keys. Index: run_keys_pkey.
with written as (
	insert into {schema}.run_keys (tenant, workflow, key, input_hash, run_id)
	select d.tenant, d.workflow, d.key, d.input_hash, d.run_id
	from unnest(@tenants::text[], @workflows::text[], @keys::text[], @hashes::bytea[], @runs::uuid[])
		as d (tenant, workflow, key, input_hash, run_id)
)
{none}
