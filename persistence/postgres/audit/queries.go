package audit

import "slices"

// query selects a text for each thing that is wrong.
type query struct {
	promise, name string
	sql           string
	remedy        string // "": none is known
}

// takenOver is what to do about tasks that no pod holds.
const takenOver = "the leader takes over within seconds what is in a claim of a pod that is not there; " +
	"if it stays, insert the claims as docs/operations.md says under \"Rows that somebody removed\""

// putBack is what to do about rows that somebody removed.
const putBack = "if somebody removed rows, or the disk lost them, put them back" +
	" as docs/operations.md says under \"Rows that somebody removed\""

// queries are those of the runs that are not in history, and of counts. $1 and $2, where
// they are, are meanings.
func queries() []query {
	return slices.Concat(tables(), signals(), families(), maps(), machines(), counts(), events())
}

// tables are about rows and those beside them.
func tables() []query {
	return []query{
		{"I1", "a ready task stands in a queue once", `
			select format('task %s/%s stands in %s places', t.run_id, t.step, count(q.step))
			from {schema}.tasks t left join (
				select run_id, step from {schema}.ready_queue union all select run_id, step from {schema}.parked_tasks
			) q on q.run_id = t.run_id and q.step = t.step
			where t.state = 2 group by t.run_id, t.step having count(q.step) <> 1`, putBack},
		{"I1", "what sleeps, backs off or waits with a deadline has its timer", `
			select format('task %s/%s is in state %s and has no timer', t.run_id, t.step, t.state)
			from {schema}.tasks t
			where (t.state in (4, 5) or t.state = 6 and t.sleep > 0 and t.traits & 32 > 0) and not exists (
				select from {schema}.durable_timers d
				where d.run_id = t.run_id and d.step = t.step and d.epoch = t.epoch and (d.kind in (1, 2) and t.state < 6 or d.kind = 7 and t.state = 6)
			)`, putBack},
		{"I1", "a run that is not expanded is in the intake", `
			select format('run %s has no tasks and is not in the intake', r.id)
			from {schema}.workflow_runs r
			where r.group_id = 0 and r.state < 10 and not exists (select from {schema}.intake i where i.run_id = r.id and i.signal is null)`, ""},
		{"I1", "a task whose parents have ended has begun", `
			select format('task %s/%s is pending and nothing is left to wait for', t.run_id, t.step)
			from {schema}.tasks t join {schema}.workflow_runs r on r.id = t.run_id
			where t.state = 1 and t.pending = 0 and r.state = 3`, ""},
		{"I3", "only what completed has an output", `
			select format('task %s/%s is in state %s and has an output', run_id, step, state)
			from {schema}.tasks where output is not null and state <> 10`, ""},
		{"I4", "what runs is held by a pod that is there, by a claim", `
			select format('task %s/%s runs on pod %s under epoch %s, which is in no claim', t.run_id, t.step, t.pod, t.epoch)
			from {schema}.tasks t
			where t.state = 3 and not exists (
				select from {schema}.claims c, unnest(c.runs, c.steps, c.epochs) g (run_id, step, epoch)
				where c.pod = t.pod and g.run_id = t.run_id and g.step = t.step and g.epoch = t.epoch)`, takenOver},
		{"I4", "who holds a task is a pod that has not left", `
			select format('task %s/%s runs on pod %s, which is not there', t.run_id, t.step, t.pod)
			from {schema}.tasks t where t.state = 3 and not exists (select from {schema}.pods p where p.id = t.pod)`, takenOver},
		{"I5", "a task counts the parents that have not ended", `
			select format('task %s/%s waits for %s parents; %s have not ended', t.run_id, t.step, t.pending, coalesce(o.open, 0))
			from {schema}.tasks t join {schema}.workflow_runs r on r.id = t.run_id
				left join (
					select p.run_id, c >> 3 as step, count(*) as open
					from {schema}.tasks p, unnest(p.children) c where p.state < 10 group by 1, 2
				) o on o.run_id = t.run_id and o.step = t.step
			where t.pending <> coalesce(o.open, 0) and not (r.state = 13 and r.started_at is null)`, ""},
		{"I6", "a run is terminal exactly when all of its tasks are", `
			select format('run %s is in state %s and %s of its tasks are open', r.id, r.state, coalesce(o.open, 0))
			from {schema}.workflow_runs r
				left join (select run_id, count(*) as open from {schema}.tasks where state < 10 group by 1) o on o.run_id = r.id
			where r.group_id <> 0 and (r.state >= 10) <> (coalesce(o.open, 0) = 0)`, "canceling the run ends it"},
		{"I6", "a run counts its open ends", `
			select format('run %s counts %s open ends and has %s', r.id, r.remaining, coalesce(o.open, 0))
			from {schema}.workflow_runs r
				left join (select run_id, count(*) as open from {schema}.tasks where state < 10 and children = '{}' group by 1) o on o.run_id = r.id
			where r.group_id <> 0 and r.remaining <> coalesce(o.open, 0)`, "canceling the run ends it"},
		{"I14", "a run belongs to the group of its tenant", `
			select format('run %s of tenant %s is in group %s', r.id, r.tenant, r.group_id)
			from {schema}.workflow_runs r left join {schema}.tenants t on t.tenant = r.tenant
			where r.group_id <> 0 and t.group_id is distinct from r.group_id`, ""},
		{"-", "tasks and queue rows belong to runs", `
			select format('task %s/%s belongs to no run', t.run_id, t.step)
			from {schema}.tasks t where not exists (select from {schema}.workflow_runs r where r.id = t.run_id)`, ""},
		{"-", "a run is either at work or in history", `
			select format('run %s is both', r.id) from {schema}.workflow_runs r where exists (select from {schema}.run_history h where h.id = r.id)`, ""},
		{
			"-", "each queue has a frontier", `
			select format('queue %s has no row in frontiers', q.name)
			from {schema}.queues q where not exists (select from {schema}.frontiers f where f.queue = q.queue and f.band = 0)`,
			"the next task that comes to wait in the queue makes it again",
		},
	}
}

// signals are about signals and the steps that wait for them.
func signals() []query {
	return []query{
		{
			"I19", "a signal of an open run is delivered, or will be", `
			select format('signal %s of run %s is not delivered, and not in the intake', i.id, i.run_id)
			from {schema}.inbox i join {schema}.workflow_runs r on r.id = i.run_id
			where i.n is null and r.state < 10 and not exists (select from {schema}.intake k where k.signal and k.run_id = i.run_id)`,
			"insert a row into intake with run_id of the run, and true as signal: pods deliver what the run has",
		},
		{"I19", "a step that waited for a signal has taken one", `
			select format('task %s/%s is in state %s and has taken no signal', t.run_id, t.step, t.state)
			from {schema}.tasks t
			where t.traits & 32 <> 0 and t.state in (2, 3, 10) and not exists (
				select from {schema}.inbox i where i.run_id = t.run_id and i.taken_by = t.step)`, putBack},
		{"I19", "a run counts its signals", `
			select format('run %s counts %s signals and has %s', r.id, coalesce(r.signals, 0), coalesce(i.n, 0))
			from {schema}.workflow_runs r
				left join (select run_id, count(n) as n, count(distinct n) as own, max(n) as most from {schema}.inbox group by 1) i on i.run_id = r.id
			where (coalesce(r.signals, 0) <> coalesce(i.n, 0) or i.n <> i.own or coalesce(i.most, 0) <> i.n)
				and not exists (select from {schema}.tasks t where t.run_id = r.id and t.step = 0 and t.traits & 2048 > 0)`, putBack},
	}
}

// families are about child runs and the steps that wait for them.
func families() []query {
	const told = "insert a row into intake with run_id of the run, and true as signal: pods tell the run what it has not heard"
	return []query{
		{"I20", "a step that waits for a child run has begun one", `
			select format('task %s/%s waits for a run and has begun none', t.run_id, t.step)
			from {schema}.tasks t where t.traits & 256 <> 0 and t.state = 6 and t.child is null`, ""},
		{
			"I20", "a step hears of the end of its child run, or will", `
			select format('run %s waits for run %s, which has ended or is gone, and is not in the intake', t.run_id, t.child)
			from {schema}.tasks t left join {schema}.workflow_runs r on r.id = t.child
			where t.child is not null and t.state = 6 and coalesce(r.state, 10) >= 10
				and not exists (select from {schema}.intake k where k.signal and k.run_id = t.run_id)`,
			told + "; the leader does so within minutes",
		},
		{
			"I20", "a child run hears that the step which began it was canceled, or will", `
			select format('run %s has not ended, task %s/%s which began it was canceled, and it is not in the intake', r.id, t.run_id, t.step)
			from {schema}.workflow_runs r join {schema}.tasks t on t.run_id = r.parent_run and t.step = r.parent_step
			where r.state < 10 and not r.canceling and not r.abandoned and t.state = 13
				and not exists (select from {schema}.intake k where k.signal and k.run_id = r.id)`,
			told,
		},
	}
}

// maps are about steps that execute a function for each item of a list.
func maps() []query {
	return []query{
		{"I21", "a map that waits counts its elements", `
			select format('task %s/%s counts %s open elements and %s that failed, and has %s and %s', t.run_id, t.step, m.open, m.failed,
				coalesce(e.open, 0), coalesce(e.failed, 0))
			from {schema}.tasks t
				left join {schema}.maps m on m.run_id = t.run_id and m.step = t.step
				left join (
					select run_id, owner, count(*) filter (where state < 10) as open, count(*) filter (where state > 10) as failed
					from {schema}.tasks where traits & 1024 <> 0 and declared is not null group by 1, 2
				) e on e.run_id = t.run_id and e.owner = t.step
			where t.traits & 1024 <> 0 and t.declared is null and t.state = 6
				and (m.open, m.failed) is distinct from (coalesce(e.open, 0)::integer, coalesce(e.failed, 0)::integer)`, putBack},
		{"I21", "the items to come of a map that waits are there", `
			select format('task %s/%s has %s items to come, and counts %s', m.run_id, m.step, count(i.item), m.items_left)
			from {schema}.maps m
				join {schema}.tasks t on t.run_id = m.run_id and t.step = m.step and t.state = 6
				left join {schema}.map_items i on i.run_id = m.run_id and i.step = m.step and i.item >= m.next_item
			group by m.run_id, m.step, m.items_left having count(i.item) <> m.items_left`, putBack},
	}
}

// machines are about state machines, which number the ends of what they have started with the signals.
func machines() []query {
	return []query{
		{"I16", "the entries of a machine have numbers of their own", `
			select format('run %s counts %s entries; %s have the number %s', e.run_id, coalesce(r.signals, 0), count(*), e.n)
			from (
					select i.run_id, i.n from {schema}.inbox i join {schema}.tasks t on t.run_id = i.run_id and t.step = 0 and t.traits & 2048 > 0
					where i.n is not null
					union all
					select run_id, entry from {schema}.tasks where entry > 0
				) e
				join {schema}.workflow_runs r on r.id = e.run_id
			group by e.run_id, r.signals, e.n having count(*) > 1 or e.n > coalesce(r.signals, 0)`, ""},
		{"I16", "a machine that waits has handled its entries", `
			select format('run %s waits and has handled %s of %s entries', t.run_id, coalesce(m.taken, 0), coalesce(r.signals, 0))
			from {schema}.tasks t join {schema}.workflow_runs r on r.id = t.run_id left join {schema}.machines m on m.run_id = t.run_id
			where t.traits & 2048 > 0 and t.state = 6 and coalesce(m.taken, 0) <> coalesce(r.signals, 0)`, putBack},
		{"I18", "what a machine has started has a number of its own", `
			select format('task %s/%s is called %s, and the machine has started %s', t.run_id, t.step, t.name, coalesce(r.dynamic_count, 0))
			from {schema}.tasks t join {schema}.workflow_runs r on r.id = t.run_id
				join {schema}.workflow_definitions d on d.definition = r.definition
			where t.traits & 4096 > 0
				and (t.step - d.steps not between 1 and coalesce(r.dynamic_count, 0) or split_part(t.name, '#', 2) <> (t.step - d.steps)::text)`, ""},
	}
}

// counts are about how many runs there are.
func counts() []query {
	return []query{
		{
			"-", "the runs in history are counted", `
			select format('span %s has %s runs and counts %s', s.span, h.runs, coalesce(c.runs, 0))
			from {schema}.spans s,
				lateral (
					select count(*) as runs from {schema}.run_history h
					where h.class = s.class and h.finished_at >= s.since and h.finished_at < s.until and h.slice = 0
				) h,
				lateral (
					select sum(k.runs) as runs
					from (
						select k.runs from {schema}.run_counts k where k.span = s.span and k.tenant <> ''
						union all
						select d.runs from {schema}.run_count_deltas d where d.span = s.span
					) k
				) c
			where s.class is not null and s.counted_to = 'ffffffff-ffff-ffff-ffff-ffffffffffff' and h.runs <> coalesce(c.runs, 0)`,
			"set counted_to of that row of spans to null: the leader counts its runs anew within minutes",
		},
	}
}

// events compare the history with what it led to.
func events() []query {
	return []query{
		{"I10", "the events of a task are gapless and lead to its state", `
			select format('task %s/%s is in state %s with epoch %s; it has %s events, the last of kind %s', t.run_id, t.step, t.state, t.epoch,
				coalesce(e.count, 0), e.last)
			from {schema}.tasks t
				left join (
					select run_id, step, count(*), max(n), count(distinct n) as distincts, (array_agg(kind order by n desc))[1] as last
					from (select run_id, step, n, kind from {schema}.task_events union all select run_id, step, n, kind from {schema}.task_events_kept) e
					where step >= 0 group by 1, 2
				) e on e.run_id = t.run_id and e.step = t.step
				left join unnest($1::smallint[], $2::smallint[]) m (kind, state) on m.kind = e.last
			where case when t.traits & 2048 = 0
				then t.epoch <> coalesce(e.count, 0) or e.max <> e.count or e.distincts <> e.count or t.state <> coalesce(m.state, 1)
				else t.epoch < e.max or e.distincts <> e.count or t.state <> coalesce(m.state, 1) -- the wake and the claim of a machine have none
					and not (coalesce(m.state, 1) in (2, 6) and t.state in (2, 3)) end`, ""},
		{"I10", "the events of a run are gapless", `
			select format('run %s counts %s events and has %s', r.id, r.events, coalesce(e.count, 0))
			from {schema}.workflow_runs r
				left join (
					select run_id, count(*), max(n)
					from (select run_id, step, n from {schema}.task_events union all select run_id, step, n from {schema}.task_events_kept) e
					where step = -1 group by 1
				) e on e.run_id = r.id
			where r.events <> coalesce(e.max, 0) or e.max <> e.count
				and not exists (select from {schema}.machines m where m.run_id = r.id and m.base > 0)`, ""},
	}
}
