-- stream_settings: the stream, on its replication connection (simple protocol,
-- no arguments) before it creates a slot.
select
	current_setting('wal_level') as wal_level,
	current_setting('max_slot_wal_keep_size') as max_slot_wal_keep_size,
	({published}) as published
