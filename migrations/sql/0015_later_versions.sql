-- Whether a number of a handler is free. Registering waits for it: some milliseconds for
-- each 10,000 steps of stored definitions.
create index definition_steps_by_handler on {schema}.definition_steps (handler);
