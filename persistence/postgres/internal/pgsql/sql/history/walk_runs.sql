-- walk_runs: the next runs that are not archived. Caller: RotateEvents.
-- Index: workflow_runs_pkey, one range.
select r.id from {schema}.workflow_runs r where r.id > @after::uuid order by r.id limit @limit::int
