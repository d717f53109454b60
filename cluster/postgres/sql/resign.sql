/* troupe resign */
-- The leader's session. The lock is free before other pods hear of it:
-- notifications go out at commit. As notify, where their queue is nearly full
-- nothing is said.
select pg_advisory_unlock($1),
	case when (select pg_notification_queue_usage()) < 0.9 then pg_notify($2, $3) end
