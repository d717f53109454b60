-- notify: Notify and the leader's pings. One transaction, one notification for
-- each payload (they differ, so none is folded). Locks nothing but the queue of
-- notifications, at commit.
select pg_notify($1, payload) from unnest($2::text[]) as payload
