((select r.rolsuper from pg_catalog.pg_roles r where r.rolname = current_user)
		or not (select r.rolsuper from pg_catalog.pg_roles r where r.oid = a.usesysid)
		and (pg_catalog.pg_has_role(a.usesysid, 'USAGE') or pg_catalog.pg_has_role('pg_signal_backend', 'USAGE')))
