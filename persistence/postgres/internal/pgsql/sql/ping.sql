-- ping: the payload, back. Shows that a message of this size reaches the server and returns.
-- Caller: Ping. Reads no table, takes no lock.
select @payload::bytea
