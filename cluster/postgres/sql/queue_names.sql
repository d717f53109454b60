/* troupe queue_names */
-- The stream, for a queue number that it does not know yet.
select queue::text, name from {schema}.queues
