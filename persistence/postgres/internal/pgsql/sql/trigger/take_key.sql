-- take_key: ties a key to a run, or fails. Caller: TriggerInTx, under the lock of the
-- key. A key that the transaction's snapshot does not show, though it is stored, is a
-- serialization failure of the server's, and not a duplicate. Index: run_keys_pkey.
with u as (
	insert into {schema}.run_keys (tenant, workflow, key, input_hash, run_id)
	values (@tenant, @workflow, @key, @hash::bytea, @run)
	on conflict do nothing returning 1
)
select ln((count(*) = 1)::int) from u
