(cardinality(@states::smallint[]) = 0 or z.state = any(@states::smallint[]))
		and (@labels::text is null or z.labels @> (select @labels::jsonb)) -- one cast, not one a row
		and (@workflow::text is null or z.definition = any(array(select w.definition from {schema}.workflow_definitions w where w.name = @workflow::text)))
		and (@key::text is null or z.key = @key::text)
		and (@origin::text is null or z.origin = @origin::text)
		and (@class::text is null or exists (
			select from (select k.class from {schema}.tasks k where k.run_id = z.id and k.step = z.failed_step offset 0) k where k.class = @class::text
		))
		and (@step::text is null or exists (
			select from (
				select k.name from {schema}.definition_steps k where k.definition = z.definition and k.step = z.failed_step
				union all
				select k.name from {schema}.tasks k where k.run_id = z.id and k.step = z.failed_step
				offset 0
			) k where k.name = @step::text
		))
