-- insert_handlers: numbers the handlers of some definitions that have no row. Where an operator
-- removed the rows, each gets the number that it had: as definitions that are there say, or
-- as the caller knows (0: it does not), or as tasks of the definition have it. Another
-- number that is still in use is not given again: living pods would take the tasks for
-- their own. Caller: RegisterDefinitions, under lock_catalog, after insert_definition.
-- Index: workflow_definitions_hash_key, handlers_workflow_step_fingerprint_key, handlers_pkey
-- and definition_steps_by_handler, probed per step that has no row, and definition_steps_pkey,
-- one range per version of a workflow that has such steps. What it joins it joins by a union
-- and a group: the estimates of arrays say nothing.
with owners as materialized (
	select array_agg(d.definition order by o.ord) as definitions
	from unnest(@hashes::bytea[]) with ordinality as o (hash, ord)
		left join lateral (select k.definition from {schema}.workflow_definitions k where k.hash = o.hash offset 0) d on true
),
missing as materialized (
	select z.ord, (select o.definitions from owners o)[z.owner] as definition, z.nth, z.workflow, z.step, z.fingerprint,
		nullif(z.number, 0) as number
	from unnest(@owners::int[], @nths::int[], @workflows::text[], @steps::text[], @fingerprints::bytea[], @numbers::int[]) with ordinality
		as z (owner, nth, workflow, step, fingerprint, number, ord)
	where not exists (
		select from {schema}.handlers h where h.workflow = z.workflow and h.step = z.step and h.fingerprint = z.fingerprint offset 0
	)
),
kept as materialized (
	select v.name as workflow, s.name as step, s.fingerprint, s.handler as number
	from {schema}.workflow_definitions v,
		lateral (select k.name, k.fingerprint, k.handler from {schema}.definition_steps k where k.definition = v.definition offset 0) s
	where exists (select from missing) and v.name = any(array(select distinct m.workflow from missing m))
),
known as materialized ( -- each once, also where versions of a workflow share it
	select z.workflow, z.step, z.fingerprint, min(z.ord) as ord, min(z.kept) as kept, min(z.number) as number
	from (
		select m.workflow, m.step, m.fingerprint, m.ord, null::int as kept, m.number from missing m
		union all
		select k.workflow, k.step, k.fingerprint, null, k.number, null from kept k
	) z
	group by 1, 2, 3
	having min(z.ord) is not null
),
used as materialized ( -- for what neither says
	select r.definition, t.step as nth, max(t.handler) as number
	from (
		select k.id, k.definition, row_number() over (partition by k.definition) as place
		from {schema}.workflow_runs k
		where exists (select from known n where n.kept is null and n.number is null)
			and k.definition = any(array(select distinct m.definition from missing m))
	) r,
		lateral (select k.step, k.handler from {schema}.tasks k where k.run_id = r.id offset 0) t
	where r.place <= 100
	group by 1, 2
),
had as materialized (
	select z.workflow, z.step, z.fingerprint, min(z.ord) as ord, min(z.kept) as kept, coalesce(min(z.kept), min(z.number), max(z.used)) as number
	from (
		select n.workflow, n.step, n.fingerprint, n.ord, n.kept, n.number, null::int as used from known n
		union all
		select m.workflow, m.step, m.fingerprint, null, null, null, u.number
		from used u, missing m
		where m.definition = u.definition and m.nth = u.nth
	) z
	group by 1, 2, 3
),
again as materialized (
	select h.ord, h.workflow, h.step, h.fingerprint,
		case
			when row_number() over (partition by h.number order by h.ord) = 1
				and not exists (select from {schema}.handlers k where k.handler = h.number offset 0)
				and (h.kept is not null or not exists (select from {schema}.definition_steps k where k.handler = h.number offset 0))
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
	) + row_number() over (partition by a.number is null order by a.ord)), a.workflow, a.step, a.fingerprint
	from again a
)
{none}
