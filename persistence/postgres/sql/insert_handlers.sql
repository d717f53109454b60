-- insert_handlers: numbers handlers. A number that somebody still has is not
-- given again, also where its row was removed: living pods would take the tasks
-- for their own. Caller: RegisterDefinitions, under lock_catalog.
insert into {schema}.handlers (handler, workflow, step, fingerprint)
select (
	select coalesce(max(z.handler), 0)
	from (
		select max(k.handler) as handler from {schema}.handlers k
		union all
		select max(k.handler) from {schema}.definition_steps k
		union all
		select max(h) from {schema}.pods p, unnest(p.handlers) h
	) z
) + row_number() over (order by d.ord), d.workflow, d.step, d.fingerprint
from (
	select min(ord) as ord, workflow, step, fingerprint
	from unnest(@workflows::text[], @steps::text[], @fingerprints::bytea[]) with ordinality as z (workflow, step, fingerprint, ord)
	group by 2, 3, 4
) d
where not exists (
	select from {schema}.handlers h
	where h.workflow = d.workflow and h.step = d.step and h.fingerprint = d.fingerprint
)
