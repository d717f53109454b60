-- oldest_protocol: the lowest protocol of the pods that live; null: none does.
-- Caller: the intake, about workflows that older pods do not know. Locks nothing. Index: none,
-- there is a row per pod.
select min(p.protocol) from {schema}.pods p where not p.dead
