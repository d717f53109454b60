-- find_pod: a pod by its number. Caller: JoinPod, on connections that go
-- somewhere else by their addresses. Locks the row, so that a proxy which spreads
-- reads asks the primary. Index: pods_pkey.
select p.id from {schema}.pods p where p.id = @pod for key share
