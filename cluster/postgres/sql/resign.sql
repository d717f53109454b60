-- resign: the leader's session. The lock is free before anybody hears of it:
-- notifications go out at commit.
select pg_advisory_unlock($1), pg_notify($2, $3)
