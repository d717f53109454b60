-- insert_handlers: numbers handlers. Caller: RegisterDefinitions, under
-- lock_catalog.
insert into {schema}.handlers (handler, workflow, step, fingerprint)
select (select coalesce(max(handler), 0) from {schema}.handlers) + row_number() over (order by d.ord), d.workflow, d.step, d.fingerprint
from (
	select min(ord) as ord, workflow, step, fingerprint
	from unnest(@workflows::text[], @steps::text[], @fingerprints::bytea[]) with ordinality as z (workflow, step, fingerprint, ord)
	group by 2, 3, 4
) d
where not exists (
	select from {schema}.handlers h
	where h.workflow = d.workflow and h.step = d.step and h.fingerprint = d.fingerprint
)
