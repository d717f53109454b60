-- pods: the display. The number that tasks and events carry, by name.
select id, name from troupe.pods
