-- insert_claim: what a record grants of the tasks that became ready with it, under its claim. Writes
-- all of them, or fails.
-- Caller: the slow path of record, once it has written the tasks. Index: claims_pkey.
with u as (
	insert into {schema}.claims as c (pod, claim, runs, steps, epochs)
	values (@pod, @claim, @runs::uuid[], @steps::int[], @epochs::bigint[])
	on conflict (pod, claim) do update
	set runs = c.runs || excluded.runs, steps = c.steps || excluded.steps, epochs = c.epochs || excluded.epochs
	returning cardinality(epochs) >= cardinality(@epochs::bigint[]) as written
)
select ln((count(*) = 1)::int) from u where written
