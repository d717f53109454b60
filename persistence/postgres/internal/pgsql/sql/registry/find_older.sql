-- find_older: the numbers of handlers of earlier versions of machines, in the order asked; 0: there
-- is no row.
-- Caller: RegisterDefinitions and JoinPod, if there are such. Locks nothing. Index:
-- handlers_workflow_step_fingerprint_key, probed per handler.
select d.ord::int, coalesce((
	select h.handler from {schema}.handlers h where h.workflow = d.workflow and h.step = d.step and h.fingerprint = d.fingerprint offset 0
), 0)
from unnest(@workflows::text[], @steps::text[], @fingerprints::bytea[]) with ordinality as d (workflow, step, fingerprint, ord)
order by d.ord
