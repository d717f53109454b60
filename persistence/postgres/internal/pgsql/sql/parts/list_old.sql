-- The rest of the piece is in history. All of it is one statement, so that a run that moves
-- there is seen once.
old as materialized (
	select h.page, h.searched
	from low, {schema}.history_walk(@tenant::text, @before::uuid, coalesce(low.id, @from::uuid), @states::smallint[], @labels::jsonb,
		case when @workflow::text is not null then array(select w.definition from {schema}.workflow_definitions w where w.name = @workflow::text) end,
		@key::text, @origin::text, @class::text, @step::text, @limit::int, @piece::int) h
	where @ended::bool
),
piece as materialized (
	select array(
		select u.id
		from (select l.id from live l union all select o.id from old, unnest(old.page) o (id)) u
		where p.low is null or u.id >= p.low
		order by u.id desc
		limit @limit::int
	) as page, p.low
	from (select greatest((select low.id from low), (select old.searched from old)) as low) p
)
select p.page, case when cardinality(p.page) = @limit::int then p.page[@limit::int] else p.low end
from piece p
