-- read_key: the run that an idempotency key names. Caller: RunByKey.
-- Index: run_keys_pkey.
select k.run_id
from {schema}.run_keys k
where k.tenant = @tenant::text and k.workflow = @workflow::text and k.key = @key::text
