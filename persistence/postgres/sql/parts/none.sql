-- Nothing is answered. A statement that writes in front of it is refused where somebody put
-- a rule on its table, which would have it write nothing otherwise, and say so to nobody.
select
