-- An error (2201E, the logarithm of zero) unless all was written: the commit may be on its
-- way with it.
select ln((count(*) = (select count(*) from d))::int) from u
