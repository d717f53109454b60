/* troupe visible */
-- The stream, before it hands on a batch. Whether other sessions see
-- what these transactions committed; the stream has 32 bits of their ids, which
-- are completed to the nearest id. Reads a snapshot and no table.
with recent as materialized (
	select pg_current_snapshot() as snapshot, pg_snapshot_xmax(pg_current_snapshot())::text::bigint as xmax
),
whole as (
	select snapshot, low + (((xmax - low + (1::bigint << 31)) >> 32) << 32) as id
	from recent, unnest($1::bigint[]) as low
)
select coalesce(bool_and(pg_visible_in_snapshot(id::text::xid8, snapshot)), true) from whole
