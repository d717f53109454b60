-- fence: the leader's epoch, kept as it is until this transaction ends: a leader that is
-- elected next waits for it. No row: a newer leader exists.
-- Caller: every transaction of the leader, first. Locks leader_epoch (share).
select 1 from {schema}.leader_epoch l where l.epoch = @epoch for share
