-- After live_or_old.
e as (
	select e.step, e.kind, e.n, e.at, e.pod, e.delay, e.attempt, e.wake_at, e."by", e.class, e.text
	from live r
		left join {schema}.machines m on m.run_id = r.id and m.base_epoch > 0
		join {schema}.task_events e on e.run_id = r.id -- those of archived runs stay there for a while
	where m.run_id is null or not {event_gone}
	union all
	select e.step, e.kind, e.n, e.at, e.pod, e.delay, e.attempt, e.wake_at, e."by", e.class, e.text
	from {schema}.task_events_kept e
		left join {schema}.machines m on m.run_id = e.run_id and m.base_epoch > 0
	where e.run_id = @run and (m.run_id is null or not {event_gone})
	union all -- it stands for those
	select s.step, 15::smallint, s.n, m.base_at, null, null, null, null, null, null, null
	from live r
		join {schema}.machines m on m.run_id = r.id and m.base_epoch > 0,
		lateral (values (0, m.base_epoch), (-1, m.base_events)) as s (step, n)
	where s.n > case s.step when 0 then 0 else 2 end
	union all
	select u.*
	from old h,
		unnest(h.event_steps, h.event_kinds, h.event_ns, h.event_ats, h.event_pods, h.event_delays, h.event_tries, h.event_wakes,
			h.event_bys, h.event_classes, h.event_texts) u
	where not h.plain
	union all
	select -1, u.kind, u.n, u.at, null, null, null, null, u."by", null, null
	from old h,
		lateral (
			values (32::smallint, 1::bigint, h.created_at, nullif(h.origin, '')), (33::smallint, 2::bigint, h.started_at, null),
				(35::smallint, 3::bigint, h.finished_at, null)
		) as u (kind, n, at, "by")
	where h.plain and h.slice = 0
	union all
	select h.first + u.nth::integer - 1, e.kind, e.n, e.at, e.pod, null, e.attempt, null, null, null, null
	from old h,
		unnest(h.queued, h.started, h.finished, h.pods) with ordinality as u (queued, started, finished, pod, nth),
		lateral (
			values (1::smallint, 1::bigint, u.queued, null::bigint, null::integer), (2::smallint, 2::bigint, u.started, u.pod, 1),
				(3::smallint, 3::bigint, u.finished, null, null)
		) as e (kind, n, at, pod, attempt)
	where h.plain
)
