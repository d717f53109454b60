-- For a clock that was ahead and is put right. A leader knows a lease whose end is
-- as of such a clock by how long the lease is, and an event whose time is in a
-- span that is closed already is kept by itself instead of being refused.
-- Takes pods, and closed spans of events, exclusively for an instant.

-- Null: a pod of an older version; its lease is taken as it is.
alter table {schema}.pods add column ttl interval;

create function {schema}.keep_event() returns trigger language plpgsql as $keep$
begin
	execute pg_catalog.format('insert into %I.task_events_kept select $1.*', tg_table_schema) using new;
	if new.kind in (34, 35, 36, 37) then -- what the publication would have carried
		perform pg_catalog.pg_logical_emit_message(true, tg_table_schema || '_wake',
			'1 0 ' || case when new.kind = 34 then 'c' else 'e' end
				|| pg_catalog.translate(pg_catalog.encode(pg_catalog.uuid_send(new.run_id), 'base64'), '+/=', '-_'));
	end if;
	return null;
end
$keep$;

do $closed$
declare
	part text;
begin
	for part in
		select format('%I.%I', n.nspname, c.relname)
		from pg_constraint k
			join pg_class c on c.oid = k.conrelid
			join pg_namespace n on n.oid = c.relnamespace
			join pg_inherits i on i.inhrelid = c.oid
		where k.conname = 'closed' and i.inhparent = $name${schema}.task_events$name$::regclass
	loop
		execute format('alter table %s drop constraint closed', part);
		execute format('create trigger closed before insert on %s for each row execute function %s()', part, $name${schema}.keep_event$name$);
		execute format('alter table %s enable always trigger closed', part);
	end loop;
end
$closed$;
