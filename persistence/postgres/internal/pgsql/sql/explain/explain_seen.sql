-- explain_seen: when handlers were last registered by a pod, or started by one
-- among the youngest tasks.
-- Caller: Situation. Index: tasks_pkey, backwards, up to a number of rows.
with young as materialized (
	select k.handler, k.started_at from {schema}.tasks k order by k.run_id desc, k.step desc limit @most::int
)
select h.handler, greatest(
	(select max(least(p.expires_at, @now::timestamptz)) from {schema}.pods p where h.handler = any(p.handlers)),
	(select max(y.started_at) from young y where y.handler = h.handler))
from unnest(@handlers::int[]) as h (handler)
order by 1
