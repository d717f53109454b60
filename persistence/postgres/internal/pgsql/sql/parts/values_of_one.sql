@run::uuid, @definition::int, @group::int, @remaining::int, @events::int, @queue::smallint, @state::smallint, @slow::bool,
		s.now, s.now, @tenant::text, null, @origin::text, nullif(@trace::text, ''), @labels::jsonb, @input::bytea
