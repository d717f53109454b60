-- find_handlers: the numbers of handlers of a workflow, in the order asked.
-- Caller: RegisterDefinitions. Index: handlers_workflow_step_fingerprint_key.
select h.handler
from unnest(@steps::text[], @fingerprints::bytea[]) with ordinality as d (step, fingerprint, ord),
	lateral (
		select k.handler from {schema}.handlers k
		where k.workflow = @workflow::text and k.step = d.step and k.fingerprint = d.fingerprint offset 0
	) h
order by d.ord
