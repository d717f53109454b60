-- fast_tasks: which of some successes record_fast will record, with the groups of
-- their tenants.
-- Caller: records under a limit per tenant, under the locks of the runs: those that
-- will not end are still running. Index: the primary keys, probed per task.
select d.ord::int, r.group_id
from unnest(@runs::uuid[], @steps::int[], @epochs::bigint[]) with ordinality as d (run_id, step, epoch, ord),
{takes_fast_path}
where x.state = 3 and x.epoch = d.epoch and x.pod = @pod
