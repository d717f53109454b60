-- bump_epoch: Campaign, on the session that holds the lock. Waits for leader
-- statements in flight, which hold the row for share.
update {schema}.leader_epoch
set epoch = epoch + 1, holder = $1, at = clock_timestamp()
returning epoch
