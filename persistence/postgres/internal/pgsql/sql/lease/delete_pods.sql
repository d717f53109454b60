-- delete_pods: pods of which nothing is left, and their claims.
-- Caller: LeavePod and ExpirePods, which hold the rows.
with c as (
	delete from {schema}.claims c where c.pod = any(@pods::bigint[])
),
written as (
	delete from {schema}.pods p where p.id = any(@pods::bigint[])
)
{none}
