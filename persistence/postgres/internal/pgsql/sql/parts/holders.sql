recursive holders (pod) as ( -- the pods that claims are of, a probe each: claims are many
	(select c.pod from {schema}.claims c order by c.pod limit 1)
	union all
	select (select c.pod from {schema}.claims c where c.pod > h.pod order by c.pod limit 1) from holders h where h.pod is not null
),
missing as materialized ( -- their rows were removed by hand: both go at once otherwise
	select h.pod from holders h where h.pod is not null and not exists (select from {schema}.pods p where p.id = h.pod)
)
