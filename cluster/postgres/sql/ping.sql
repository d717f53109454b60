/* troupe ping */
-- The leader's session. Like notify; the notification says how far the
-- server's log was written, in bytes, so that a pod knows when its stream lags.
select pg_notify($1, payload || ' w' || (pg_current_wal_flush_lsn() - '0/0'))
from unnest($2::text[]) as payload
where (select pg_notification_queue_usage()) < 0.9
