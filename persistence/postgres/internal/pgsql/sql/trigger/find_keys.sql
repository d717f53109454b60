-- find_keys: the keys that exist, in the order asked. A statement after the one
-- that locked them, so that it sees what the previous holder committed.
-- Caller: TriggerRuns, TriggerInTx. Index: run_keys_pkey, probed per key: in a
-- serializable transaction that would lock the page of the index against the keys of
-- other transactions, so that nothing is read there unless @always.
select d.ord, k.run_id, k.input_hash
from unnest(@tenants::text[], @workflows::text[], @keys::text[]) with ordinality as d (tenant, workflow, key, ord),
	lateral (
		select k.run_id, k.input_hash from {schema}.run_keys k
		where k.tenant = d.tenant and k.workflow = d.workflow and k.key = d.key offset 0
	) k
where {may_read}
