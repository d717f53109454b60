exists (select from {schema}.archived_up_to a where a.id < @run::uuid)
		and @made::timestamptz > c.now - @young::bigint * interval '1 microsecond' and @made::timestamptz < c.now + interval '1 second'
		and exists (select from {schema}.tenants k where k.tenant = @tenant::text and k.group_id = @group::int)
		and exists (
			select from {schema}.workflow_definitions k
			where k.definition = @definition::int and k.hash = @hash::bytea and k.steps + k.has_handler::int = (
				select count(*) from {schema}.definition_steps s where s.definition = @definition::int
			)
		)
