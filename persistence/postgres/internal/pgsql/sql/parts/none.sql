-- Nothing is answered. A statement that writes in front of it is refused where a rule was put
-- on its table, which would have it write nothing otherwise, without an error.
select
