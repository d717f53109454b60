/* troupe notify */
-- Notify and NotifyTx. One transaction, one notification for each
-- payload (they differ, so none is folded). Locks nothing but the queue of
-- notifications, at commit. Where that is nearly full nothing is notified: a
-- commit that meets a full one fails. Asking how full it is frees what
-- all sessions have read.
select pg_notify($1, payload) from unnest($2::text[]) as payload
where (select pg_notification_queue_usage()) < 0.9
