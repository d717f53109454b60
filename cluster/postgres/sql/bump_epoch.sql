/* troupe bump_epoch */
-- Campaign, on the session that holds the lock. Waits for leader
-- statements in flight, which hold the row for share. A row that was
-- removed by hand is made again, from the clock: above all epochs that were counted,
-- so that older leaders stay fenced.
insert into {schema}.leader_epoch as l (epoch, holder, at)
select (extract(epoch from clock_timestamp()) * 1000000)::bigint, $1::bigint, clock_timestamp()
on conflict (one) do update set epoch = l.epoch + 1, holder = excluded.holder, at = excluded.at
returning epoch
