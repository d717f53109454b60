-- bump_epoch: a new leader. Waits for leader transactions in flight, which
-- hold the row for share. Caller: BumpEpoch.
update {schema}.leader_epoch set epoch = epoch + 1, holder = @holder, at = clock_timestamp() returning epoch
