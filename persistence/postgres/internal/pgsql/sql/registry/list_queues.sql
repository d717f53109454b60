-- list_queues: all queues. Caller: the catalog, when it meets an unknown one.
select queue, name from {schema}.queues
