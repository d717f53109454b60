-- counted: whether the server counts a stream of that name as a synchronous standby,
-- were it to say that it has flushed something. pg_stat_replication shows no priority
-- for one that does not.
select position('*' in standbys) > 0 or position(lower({name}) in lower(standbys)) > 0
from (values (current_setting('synchronous_standby_names'))) names (standbys)
