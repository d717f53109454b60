-- An error (2201E, the logarithm of zero) unless all was written: the commit may be on its
-- way with it. Statements that answer more say so in a condition. A row that was locked
-- may have changed under it, and triggers of others leave rows out, or as they were.
select ln((count(*) filter (where written) = (select count(*) from d))::int) from u
