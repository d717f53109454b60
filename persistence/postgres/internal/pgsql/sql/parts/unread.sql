a.datid = (select d.oid from pg_catalog.pg_database d where d.datname = pg_catalog.current_database())
		and a.wait_event in ('ClientWrite', 'ClientRead') and a.state = 'active' and a.backend_xid is not null and a.query like '/* troupe %'
