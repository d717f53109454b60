-- insert_intake: asks the pods to expand a run. Caller: TriggerInTx.
with written as (
	insert into {schema}.intake (run_id, at, edges) values (@run, @at, @edges)
)
{none}
