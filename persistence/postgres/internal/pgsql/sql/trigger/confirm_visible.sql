-- confirm_visible: writes to the log if the server waits for standbys, so that the
-- commit waits for them, too: they have everything then that was committed
-- before. What the server was made to give up waiting for is visible, and is lost
-- with it.
-- Caller: TriggerRuns and TriggerInTx, which may answer with what is there
-- without writing anything. Locks nothing.
select pg_catalog.pg_logical_emit_message(true, 'troupe', '')
where pg_catalog.current_setting('synchronous_standby_names') <> ''
