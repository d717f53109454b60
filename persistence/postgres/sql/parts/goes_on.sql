(h.holder = any(@holders::bigint[]) or case
		when h.holder >= 3 then exists (
			select from (
				select next.n + (h.holder - next.n % 4294967296 + 6442450944) % 4294967296 - 2147483648 as number offset 0
			) f
			where case
				when f.number >= 3 and f.number < least(@before::bigint, next.n)
					then pg_catalog.pg_xact_status(f.number::text::pg_catalog.xid8) = 'in progress'
				end
		) end)
