-- insert_intake: asks the pods to expand a run. Caller: TriggerInTx.
with u as (
	insert into {schema}.intake (run_id, at, edges) values (@run, @at, @edges) returning 1
)
select ln((count(*) = 1)::int) from u
