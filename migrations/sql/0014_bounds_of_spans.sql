-- A run in history is found without a look into each span: a retention of a year
-- has hundreds of them, and a plan that names them all locks them all. A span that
-- is over is sealed: the least and the highest id in it are noted, and what comes
-- late widens that. Takes spans exclusively for an instant; the leader seals those
-- that there are.

alter table {schema}.spans add column lowest uuid, add column highest uuid; -- null: not sealed, any run may be in it

create function {schema}.widen_span() returns trigger language plpgsql as $widen$
begin
	update {schema}.spans s
	set lowest = least(s.lowest, new.id), highest = greatest(s.highest, new.id)
	where s.span = tg_argv[0]::integer and (new.id < s.lowest or new.id > s.highest);
	return null;
end
$widen$;

-- The rows in history of some runs. A plan for each span names that one alone; a
-- run is in one of them, most often in the first that has its id between its bounds.
create function {schema}.history_of(runs uuid[]) returns setof {schema}.run_history language plpgsql stable strict rows 1 as $history$
declare
	least_run uuid := (select z.id from pg_catalog.unnest(runs) z (id) order by z.id limit 1);
	last_run  uuid := (select z.id from pg_catalog.unnest(runs) z (id) order by z.id desc limit 1);
	part      record;
begin
	for part in
		select s.class, s.since, s.until
		from {schema}.spans s
		where s.class is not null and (s.lowest is null or s.lowest <= last_run and s.highest >= least_run)
		order by s.until
	loop
		return query execute $sql$
			select h.* from {schema}.run_history h
			where h.class = $2 and h.finished_at >= $3 and h.finished_at < $4 and h.id = any($1)
			$sql$ using runs, part.class, part.since, part.until;
		exit when found and least_run = last_run;
	end loop;
end
$history$;

-- The ids of the latest runs in history below "before" and above "above" of which
-- a filter holds, null for what does not matter, latest first: span after span, until
-- what is left can only be older.
create function {schema}.history_page(of_tenant text, before uuid, above uuid, states smallint[], labels jsonb, of_workflow text, most integer)
returns setof uuid language plpgsql stable rows 100 as $page$
declare
	definitions integer[] := array(select w.definition from {schema}.workflow_definitions w where w.name = of_workflow);
	page        uuid[] := '{}';
	part        record;
	more        uuid[];
begin
	above := coalesce(above, '00000000-0000-0000-0000-000000000000');
	for part in
		select s.class, s.since, s.until, s.highest
		from {schema}.spans s
		where s.class is not null and (s.lowest is null or s.lowest < before and s.highest > above)
		order by s.highest desc nulls first
	loop
		exit when part.highest <= above;
		execute $sql$
			select array(
				select h.id from {schema}.run_history h
				where h.class = $1 and h.finished_at >= $2 and h.finished_at < $3 and h.slice = 0
					and (pg_catalog.cardinality($6) = 0 or h.state = any($6)) and ($7 is null or h.labels @> $7)
					and ($8 is null or h.definition = any($9))
				$sql$ || case when of_tenant is null then $sql$
					and h.id < $4 and h.id > $5
				order by h.id desc
				$sql$ else $sql$
					and h.tenant = $11 and pg_catalog.uuid_send(h.id) < pg_catalog.uuid_send($4)
					and pg_catalog.uuid_send(h.id) > pg_catalog.uuid_send($5)
				order by h.tenant desc, pg_catalog.uuid_send(h.id) desc
				$sql$ end || $sql$
				limit $10
			)$sql$ into more
			using part.class, part.since, part.until, before, above, states, labels, of_workflow, definitions, most, of_tenant;
		page := array(select z.id from pg_catalog.unnest(page || more) z (id) order by z.id desc limit most);
		if pg_catalog.cardinality(page) = most then
			above := page[most];
		end if;
	end loop;
	return query select z.id from pg_catalog.unnest(page) z (id);
end
$page$;

-- The functions run with the caller's rights on the tables.
grant execute on function {schema}.history_of, {schema}.history_page to public;
