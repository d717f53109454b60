-- find_owner: the owner of a table that is made of spans, if that is another role than
-- the caller's, and one that a new table can be given to; null: none.
-- Caller: each call that makes a span. Locks nothing.
select (
	select pg_catalog.pg_get_userbyid(c.relowner)
	from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
	where n.nspname = @schema::text and c.relname = @whole::text and pg_catalog.pg_get_userbyid(c.relowner) <> current_user
		and pg_catalog.pg_has_role(c.relowner, 'member') and pg_catalog.has_schema_privilege(c.relowner, n.oid, 'create')
)
