-- echo: the payload, back. Tells whether what is large gets through to the server and back.
-- Caller: Echo. Reads no table, takes no lock.
select @payload::bytea
