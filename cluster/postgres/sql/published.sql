-- published: whether the publication carries what the stream is read for: missing,
-- incomplete, more or whole. It may have been changed by hand; the server says nothing then, or
-- refuses all updates of the tables.
select case when p.oid is null then 'missing'
	when p.pubupdate or p.pubdelete then 'more'
	when p.pubinsert and p.pubviaroot and (select count(*) from pg_catalog.pg_publication_tables t
		where t.pubname = p.pubname and t.schemaname = {schema_name}
			and t.tablename in ('ready_queue', 'intake', 'durable_timers', 'task_events')) = 4 then 'whole'
	else 'incomplete' end
from (values (1)) one left join pg_catalog.pg_publication p on p.pubname = {publication}
