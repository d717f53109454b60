(@always::bool or pg_catalog.current_setting('transaction_isolation') <> 'serializable')
