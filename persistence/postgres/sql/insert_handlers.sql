-- insert_handlers: numbers the handlers of a workflow that have no row. Where somebody
-- removed the rows, each gets the number that it had: as definitions that are there say, or
-- as the caller knows (0: it does not), or as tasks of the definition have it. Another
-- number that somebody still has is not given again: living pods would take the tasks for
-- their own. Caller: RegisterDefinitions, under lock_catalog, after insert_definition.
with wanted as materialized (
	select min(z.ord) as ord, z.step, z.fingerprint, min(z.number) as number
	from unnest(@steps::text[], @fingerprints::bytea[], @numbers::int[]) with ordinality as z (step, fingerprint, number, ord)
	group by 2, 3
),
missing as materialized (
	select w.*
	from wanted w
	where not exists (
		select from {schema}.handlers h where h.workflow = @workflow::text and h.step = w.step and h.fingerprint = w.fingerprint
	)
),
versions as materialized (
	select d.definition from {schema}.workflow_definitions d where (d.hash = @hash::bytea or d.name = @workflow::text) and exists (select from missing)
),
kept as materialized (
	select s.name as step, s.fingerprint, min(s.handler) as number
	from versions v, {schema}.definition_steps s
	where s.definition = v.definition
	group by 1, 2
),
used as materialized ( -- for what no version of the workflow says
	select t.step as nth, max(t.handler) as number
	from (
		select r.id
		from {schema}.workflow_definitions d, {schema}.workflow_runs r
		where d.hash = @hash::bytea and r.definition = d.definition and exists (select from missing m where (m.step, m.fingerprint) not in (select k.step, k.fingerprint from kept k))
		limit 100
	) r, {schema}.tasks t
	where t.run_id = r.id
	group by 1
),
had as materialized (
	select m.ord, m.step, m.fingerprint, coalesce(k.number, nullif(m.number, 0), u.number) as number
	from missing m
		left join kept k on k.step = m.step and k.fingerprint = m.fingerprint
		left join used u on u.nth = m.ord - 1
),
again as materialized (
	select h.ord, h.step, h.fingerprint,
		case
			when row_number() over (partition by h.number order by h.ord) = 1
				and h.number not in (select k.handler from {schema}.handlers k)
				and (
					h.number not in (select k.handler from {schema}.definition_steps k)
					or (h.step, h.fingerprint, h.number) in (select k.step, k.fingerprint, k.number from kept k)
				)
				then h.number
		end as number
	from had h
),
written as (
	insert into {schema}.handlers (handler, workflow, step, fingerprint)
	select coalesce(a.number, (
		select coalesce(max(z.handler), 0)
		from (
			select max(k.handler) as handler from {schema}.handlers k
			union all
			select max(k.handler) from {schema}.definition_steps k
			union all
			select max(h) from {schema}.pods p, unnest(p.handlers) h
			union all
			select max(k.number) from again k
			union all -- all rows are gone, and those of other programs as well
			select max(t.handler) from {schema}.tasks t where not exists (select from {schema}.handlers)
		) z
	) + row_number() over (partition by a.number is null order by a.ord)), @workflow::text, a.step, a.fingerprint
	from again a
)
{none}
