-- Lists and counts of runs that stay fast however many there are. Pods of the version before
-- keep working. What a leader of that version archives is counted later, piece by piece, by a
-- leader of this one, as is all that is in history now.
-- Takes run_history exclusively for an instant. Archiving waits while spans get their indexes
-- of failures, for a second or two per million runs in history.

-- counted_to: of the runs in a span, those up to this id have been counted; null: none.
-- labeled: there is an index of labels.
alter table {schema}.spans add column counted_to uuid, add column labeled boolean not null default false;

-- How many runs have ended, as they are moved into history: a row for each group of runs that
-- are moved at once, until the leader adds it to the counts.
create table {schema}.run_count_deltas (
	span       integer not null,
	hour       timestamptz not null,
	tenant     text collate "C" not null,
	definition integer not null,
	state      smallint not null,
	runs       bigint not null
);
alter table {schema}.run_count_deltas replica identity full;

-- By the day in which they ended. The tenant '' stands for all of them. A count goes with its
-- span.
create table {schema}.run_counts (
	tenant     text collate "C" not null,
	day        timestamptz not null,
	definition integer not null,
	state      smallint not null,
	span       integer not null,
	runs       bigint not null,
	primary key (tenant, day, definition, state, span)
) with (fillfactor = 70);
create index run_counts_by_span on {schema}.run_counts (span);

-- By the hour, for the last days: from archived_up_to.hours_from on, which is the beginning
-- of a day.
create table {schema}.run_counts_hourly (
	tenant     text collate "C" not null,
	hour       timestamptz not null,
	definition integer not null,
	state      smallint not null,
	span       integer not null,
	runs       bigint not null,
	primary key (tenant, hour, definition, state, span)
) with (fillfactor = 70);

alter table {schema}.archived_up_to add column hours_from timestamptz not null default '-infinity';

-- A leader that does not count does not say so: the spans that it may write to are counted
-- anew.
create function {schema}.counts_lost() returns trigger language plpgsql as $lost$
begin
	if pg_catalog.current_setting('troupe.counts', true) is distinct from 'on' then
		update {schema}.spans s
		set counted_to = null
		where s.class is not null and s.lowest is null and s.counted_to is not null;
	end if;
	return null;
end
$lost$;

create trigger counted after insert on {schema}.run_history for each statement execute function {schema}.counts_lost();

-- A run that is moved into a sealed span is counted here, whatever version moves it.
create or replace function {schema}.widen_span() returns trigger language plpgsql as $widen$
begin
	update {schema}.spans s
	set lowest = least(s.lowest, new.id), highest = greatest(s.highest, new.id)
	where s.span = tg_argv[0]::integer and (new.id < s.lowest or new.id > s.highest);
	if new.slice = 0 then
		insert into {schema}.run_count_deltas (span, hour, tenant, definition, state, runs)
		select s.span, pg_catalog.date_trunc('hour', new.finished_at, 'UTC'), new.tenant, new.definition, new.state, 1
		from {schema}.spans s
		where s.span = tg_argv[0]::integer and new.id <= s.counted_to;
	end if;
	return null;
end
$widen$;

-- Failures are few, and looked for often.
do $failures$
declare
	part record;
begin
	for part in
		select t.relid::regclass as name, c.relname
		from pg_partition_tree($name${schema}.run_history$name$::regclass) t join pg_class c on c.oid = t.relid
		where t.isleaf
	loop
		execute format('create index %I on %s (id) where slice = 0 and state in (11, 13)', part.relname || '_failed', part.name);
		execute format('create index %I on %s (tenant, uuid_send(id)) where slice = 0 and state in (11, 13)', part.relname || '_failed_by_tenant', part.name);
	end loop;
end
$failures$;

-- A piece of a walk through history: the ids of the latest runs below "before", and not below
-- "least_run", of which a filter holds, null for what does not matter, latest first; and the
-- id down to which runs were searched, null if that is all of them. It ends after "most" runs,
-- after as many rows as "piece" says, or after some spans. In a span whose labels are indexed,
-- what a walk does not find soon is found by the index, unless that has more than a piece, too.
create function {schema}.history_walk(of_tenant text, before uuid, least_run uuid, states smallint[], labels jsonb, definitions integer[],
	of_key text, of_origin text, of_class text, of_step text, most integer, piece integer, out page uuid[], out searched uuid)
language plpgsql stable as $walk$
declare
	spans_max constant integer := 16;
	all_of_it constant uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
	failures  constant boolean := pg_catalog.cardinality(states) > 0 and states <@ '{11, 13}' or of_class is not null or of_step is not null;
	fields    constant text := 'h.id, h.state, h.labels, h.definition, h.key, h.origin, h.failed_step, h.states, h.classes';
	source    constant text := ' from {schema}.run_history h where h.class = $1 and h.finished_at >= $2 and h.finished_at < $3 and h.slice = 0'
		|| case when failures then ' and h.state in (11, 13)' else '' end;
	latest    constant text := case when of_tenant is null then ' and h.id < $4 and h.id >= $5 order by h.id desc' else
		' and h.tenant = $6 and pg_catalog.uuid_send(h.id) < pg_catalog.uuid_send($4) and pg_catalog.uuid_send(h.id) >= pg_catalog.uuid_send($5)'
		|| ' order by h.tenant desc, pg_catalog.uuid_send(h.id) desc' end;
	matches   text := 'true';
	recent    integer[] := array(select distinct d.span from {schema}.run_count_deltas d); -- spans of which the counts are not all
	edge      uuid := least_run; -- what is below it is not searched
	part      record;
	looked    integer := 0; -- spans
	walked    integer := 0; -- rows
	sparse    boolean := false; -- a piece had less than a page
	by_labels boolean;
	by_both   boolean;
	low       uuid; -- of the span, down to where it was searched; null: all of it
	more      uuid[];
	hits      integer;
	above     bytea;
begin
	page := '{}';
	if pg_catalog.cardinality(states) > 0 then
		matches := matches || ' and z.state = any($7)';
	end if;
	if labels is not null then
		matches := matches || ' and z.labels @> $8';
	end if;
	if definitions is not null then
		matches := matches || ' and z.definition = any($9)';
	end if;
	if of_key is not null then
		matches := matches || ' and z.key = $10';
	end if;
	if of_origin is not null then
		matches := matches || ' and z.origin = $11';
	end if;
	if of_class is not null then
		matches := matches || $sql$ and case when z.failed_step < pg_catalog.cardinality(z.states) then z.classes[z.failed_step + 1] else (
			select k.classes[z.failed_step - k.first + 1] from {schema}.run_history k
			where k.class = $1 and k.finished_at >= $2 and k.finished_at < $3 and k.id = z.id and k.slice > 0 and z.failed_step >= k.first
				and z.failed_step < k.first + pg_catalog.cardinality(k.states)
		) end = $12$sql$;
	end if;
	if of_step is not null then
		matches := matches || $sql$ and exists (
			select from (
				select k.name from {schema}.definition_steps k where k.definition = z.definition and k.step = z.failed_step offset 0
			) k where k.name = $13
		)$sql$;
	end if;

	for part in
		select s.span, s.class, s.since, s.until, s.highest, s.labeled, s.counted_to
		from {schema}.spans s
		where s.class is not null and (s.lowest is null or s.lowest < before and s.highest >= least_run)
		order by s.highest desc nulls first
	loop
		exit when part.highest < edge;
		continue when part.counted_to = all_of_it and part.span <> all(recent) and not exists (
			select from {schema}.run_counts c
			where c.tenant = coalesce(of_tenant, '') and c.day >= pg_catalog.date_trunc('day', part.since, 'UTC') and c.day < part.until
				and c.span = part.span and (definitions is null or c.definition = any(definitions))
				and (pg_catalog.cardinality(states) = 0 or c.state = any(states)) and (not failures or c.state in (11, 13))
		);
		if (looked >= spans_max or walked >= piece) and part.highest < before then
			above := pg_catalog.uuid_send(part.highest); -- and one more: that of the span is not searched
			for i in reverse 15..0 loop
				above := pg_catalog.set_byte(above, i, (pg_catalog.get_byte(above, i) + 1) % 256);
				exit when pg_catalog.get_byte(above, i) > 0;
			end loop;
			if pg_catalog.encode(above, 'hex')::uuid < before then -- or no call would come further
				edge := greatest(edge, pg_catalog.encode(above, 'hex')::uuid);
				exit;
			end if;
		end if;
		looked := looked + 1;
		low := before;
		by_both := labels is not null and part.labeled;
		by_labels := by_both and sparse;
		loop
			if by_labels then
				-- Only the index of labels will do then, which gives runs in no order.
				perform pg_catalog.set_config('enable_indexscan', 'off', true);
				execute 'select pg_catalog.count(*), pg_catalog.array_agg(z.id) filter (where ' || matches || ') from (select ' || fields || source
					|| ' and h.labels is not null and h.labels @> $8 and h.id < $4 and h.id >= $5'
					|| case when of_tenant is null then '' else ' and h.tenant = $6' end || ' limit $14 + 1) z' into hits, more
				using part.class, part.since, part.until, low, edge, of_tenant, states, labels, definitions, of_key, of_origin, of_class,
					of_step, piece;
				perform pg_catalog.set_config('enable_indexscan', 'on', true);
				by_both := false;
				if hits <= piece then
					page := page || more;
					low := null;
					exit;
				end if;
				exit when low < before;
			else
				-- A page that is not full was searched down to the last row of the piece. One
				-- statement: to plan it costs more than to run it.
				execute 'select m.more, w.hits, w.low from (select array(select z.id from (select ' || fields || source || latest
					|| ' limit $14) z where ' || matches || ' limit $15) as more offset 0) m, lateral ('
					|| 'select pg_catalog.count(*) as hits, (pg_catalog.array_agg(z.id))[$14] as low from (select h.id' || source
					|| ' and pg_catalog.cardinality(m.more) < $15' || latest || ' limit $14) z) w' into more, hits, low
				using part.class, part.since, part.until, before, edge, of_tenant, states, labels, definitions, of_key, of_origin, of_class,
					of_step, piece, most;
				page := page || more;
				walked := walked + hits;
				sparse := sparse or low is not null;
				exit when low is null or not by_both;
			end if;
			by_labels := not by_labels;
		end loop;
		edge := greatest(edge, low);
		page := array(select z.id from pg_catalog.unnest(page) z (id) where z.id >= edge order by z.id desc limit most);
		if pg_catalog.cardinality(page) = most then
			edge := greatest(edge, page[most]);
		end if;
	end loop;
	page := array(select z.id from pg_catalog.unnest(page) z (id) where z.id >= edge order by z.id desc limit most);
	if edge > least_run then
		searched := edge;
	end if;
end
$walk$;

grant execute on function {schema}.history_walk to public;
