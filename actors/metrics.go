package actors

// Metrics receives what a pod measures. Implementations are safe for
// concurrent use and do not block. labels are the values of the metric's
// labels, in the order of the table; they are not to be changed.
type Metrics interface {
	// Add raises a counter.
	Add(metric Metric, delta float64, labels ...string)
	// Set sets a gauge.
	Set(metric Metric, value float64, labels ...string)
	// Observe adds a value to a distribution.
	Observe(metric Metric, value float64, labels ...string)
}

// NoMetrics discards everything.
type NoMetrics struct{}

var _ Metrics = NoMetrics{}

// Add implements Metrics.
func (NoMetrics) Add(Metric, float64, ...string) {}

// Set implements Metrics.
func (NoMetrics) Set(Metric, float64, ...string) {}

// Observe implements Metrics.
func (NoMetrics) Observe(Metric, float64, ...string) {}

// Metric names one measure.
type Metric uint8

// The metrics. MetricTable describes them.
const (
	_ Metric = iota
	MetricBuildInfo
	MetricTriggers
	MetricTriggerBatch
	MetricTriggerPending
	MetricClaims
	MetricClaimSize
	MetricClaimDiscarded
	MetricWakes
	MetricTriggerToStart
	MetricQueueWait
	MetricRunning
	MetricFree
	MetricStuck
	MetricAttempts
	MetricAttemptSeconds
	MetricRetries
	MetricLosses
	MetricParked
	MetricRunsEnded
	MetricRecordBatch
	MetricJournalDepth
	MetricPayloadBytes
	MetricPayloadWaiting
	MetricStale
	MetricInlineGrants
	MetricFirstGrants
	MetricTimersFired
	MetricTimersOrphaned
	MetricTimerLateness
	MetricRenewals
	MetricPods
	MetricArchived
	MetricEventsKept
	MetricSpansDropped
	MetricRestarts
	MetricLeading
	MetricMode
	MetricStoreErrors
	MetricUnknownMessages
	MetricLogDropped
	MetricSignals
	MetricSignalsDelivered
	MetricSignalsDropped
	MetricChildRuns
	MetricReady
	MetricReadyOldest
	MetricParkedTasks
	MetricIntakeOldest
	MetricDeadLetters
	MetricOldestTx
	metricEnd
)

// MetricKind says how a metric behaves.
type MetricKind string

// The kinds of metrics.
const (
	Counter      MetricKind = "counter"
	Gauge        MetricKind = "gauge"
	Distribution MetricKind = "distribution"
	// DatabaseGauge is a gauge of the whole database. No pod counts it: Pod.ReadGauges
	// reads it from the tables, and only the pod that leads does.
	DatabaseGauge MetricKind = "database gauge"
)

// MetricDescription is one row of the table of metrics.
type MetricDescription struct {
	Metric Metric
	Name   string
	Kind   MetricKind
	Unit   string // "1": a count
	Labels []string
	Help   string
}

// MetricTable returns all metrics, in order.
func MetricTable() []MetricDescription {
	return []MetricDescription{
		{MetricBuildInfo, "troupe_build_info", Gauge, "1", []string{"version", "go"}, "1, with the versions of troupe and of Go"},
		{MetricTriggers, "troupe_triggers_total", Counter, "1", []string{"result"}, "triggers answered: triggered, or the code of the refusal"},
		{MetricTriggerBatch, "troupe_trigger_batch_size", Distribution, "1", nil, "triggers stored in one transaction"},
		{MetricTriggerPending, "troupe_triggers_pending", Gauge, "1", nil, "triggers that wait to be stored"},
		{MetricClaims, "troupe_claims_total", Counter, "1", []string{"queue"}, "claims made"},
		{MetricClaimSize, "troupe_claim_size", Distribution, "1", []string{"queue"}, "tasks granted by one claim"},
		{MetricClaimDiscarded, "troupe_claim_discarded_total", Counter, "1", []string{"queue"}, "queue rows of tasks that were no longer queued"},
		{MetricWakes, "troupe_wakes_total", Counter, "1", []string{"source"}, "wakes heard: by stream, notice or sweep"},
		{MetricTriggerToStart, "troupe_trigger_to_start_seconds", Distribution, "s", nil, "from the begin of a run to the start of a first task, first attempts only; a run begins with its trigger, at its At, or when a pod takes it from the transaction that stored it"},
		{MetricQueueWait, "troupe_queue_wait_seconds", Distribution, "s", []string{"tenant"}, "from ready to claimed"},
		{MetricRunning, "troupe_tasks_running", Gauge, "1", nil, "slots in use"},
		{MetricFree, "troupe_slots_free", Gauge, "1", nil, "slots not in use"},
		{MetricStuck, "troupe_tasks_stuck", Gauge, "1", nil, "functions still running after their attempt was reported"},
		{MetricAttempts, "troupe_attempts_total", Counter, "1", []string{"workflow", "step", "outcome", "class"}, "attempts ended, those of elements of a map under its step: succeeded, retried or failed (then with the class of the error), canceled, or released to be executed again"},
		{MetricAttemptSeconds, "troupe_attempt_seconds", Distribution, "s", []string{"workflow", "step"}, "duration of step functions"},
		{MetricRetries, "troupe_retries_total", Counter, "1", nil, "attempts that will be tried again"},
		{MetricLosses, "troupe_losses_total", Counter, "1", nil, "attempts lost on this pod"},
		{MetricParked, "troupe_tasks_parked_total", Counter, "1", nil, "tasks parked by this pod as the leader, because no living pod registers their step"},
		{MetricRunsEnded, "troupe_runs_ended_total", Counter, "1", []string{"workflow", "state"}, "runs ended, counted by the pod whose transaction ended them"},
		{MetricRecordBatch, "troupe_record_batch_size", Distribution, "1", nil, "transitions recorded in one transaction"},
		{MetricJournalDepth, "troupe_journal_depth", Gauge, "1", nil, "outcomes that wait to be recorded"},
		{MetricPayloadBytes, "troupe_payload_bytes", Gauge, "1", nil, "bytes of inputs and outputs that tasks hold"},
		{MetricPayloadWaiting, "troupe_payload_waiting", Gauge, "1", nil, "tasks that wait for memory for their payloads (Config.PayloadMemory)"},
		{MetricStale, "troupe_outcomes_stale_total", Counter, "1", nil, "outcomes refused because the task has moved on"},
		{MetricInlineGrants, "troupe_inline_grants_total", Counter, "1", nil, "children granted with their parent's completion"},
		{MetricFirstGrants, "troupe_first_grants_total", Counter, "1", nil, "first tasks granted with the storing of their runs"},
		{MetricTimersFired, "troupe_timers_fired_total", Counter, "1", nil, "durable timers fired by this pod"},
		{MetricTimersOrphaned, "troupe_timers_orphaned_total", Counter, "1", nil, "durable timers removed because the rows of their runs had been deleted by hand"},
		{MetricTimerLateness, "troupe_timer_lateness_seconds", Distribution, "s", nil, "from due to fired"},
		{MetricRenewals, "troupe_lease_renewals_total", Counter, "1", []string{"result"}, "renewals of the pod's lease: renewed, alone (tasks were not compared: a table is locked), failed or dead"},
		{MetricPods, "troupe_pods", Gauge, "1", nil, "living pods"},
		{MetricArchived, "troupe_runs_archived_total", Counter, "1", nil, "ended runs moved into history by this pod"},
		{MetricEventsKept, "troupe_events_kept_total", Counter, "1", nil, "events of living runs put aside before their span of time was dropped"},
		{MetricSpansDropped, "troupe_history_spans_dropped_total", Counter, "1", nil, "spans of history dropped because their retention is over"},
		{MetricRestarts, "troupe_actor_restarts_total", Counter, "1", []string{"actor", "directive"}, "failures of actors, by what was done"},
		{MetricLeading, "troupe_leading", Gauge, "1", nil, "1 while this pod leads"},
		{MetricMode, "troupe_feed_mode", Gauge, "1", nil, "how wakes arrive: 1 stream, 2 relay, 3 none (notifications and sweeps), 4 spared (the same, because no pod needs a stream)"},
		{MetricStoreErrors, "troupe_store_errors_total", Counter, "1", []string{"call"}, "store calls that failed and are made again"},
		{MetricUnknownMessages, "troupe_unknown_messages_total", Counter, "1", []string{"actor"}, "messages that an actor does not accept"},
		{MetricLogDropped, "troupe_log_records_dropped_total", Counter, "1", nil, "log records that Config.Logger was too slow for, or panicked over"},
		{MetricSignals, "troupe_signals_total", Counter, "1", []string{"result"}, "signals answered: stored, repeated (the run had one of the same id), or the code of the refusal"},
		{MetricSignalsDelivered, "troupe_signals_delivered_total", Counter, "1", nil, "signals delivered to their runs by this pod, but for those that it found when a deadline was due"},
		{MetricSignalsDropped, "troupe_signals_dropped_total", Counter, "1", nil, "signals dropped by this pod, because their runs had ended before they were delivered"},
		{MetricChildRuns, "troupe_child_runs_total", Counter, "1", []string{"workflow"}, "child runs of the workflow that steps have begun, counted by the pod that recorded it; a run that stops begins none, and counts"},
		{MetricReady, "troupe_tasks_ready", DatabaseGauge, "1", []string{"queue"}, "tasks that wait for a slot, at most 100,000 of a queue"},
		{MetricReadyOldest, "troupe_tasks_ready_oldest_seconds", DatabaseGauge, "s", []string{"queue"}, "for how long the oldest of the first 1,000 tasks of a queue has been ready"},
		{MetricParkedTasks, "troupe_tasks_parked", DatabaseGauge, "1", []string{"workflow", "step"}, "tasks of a step that no living pod registers, at most 100,000 in all"},
		{MetricIntakeOldest, "troupe_intake_oldest_seconds", DatabaseGauge, "s", nil, "for how long the oldest trigger of a transaction has waited for a pod to begin its run"},
		{MetricDeadLetters, "troupe_dead_letters", DatabaseGauge, "1", []string{"reason"}, "dead letters that were not requeued, at most 10,000 in all"},
		{MetricOldestTx, "troupe_oldest_transaction_seconds", DatabaseGauge, "s", nil, "for how long the oldest transaction of the database has been open, of those that the role may see"},
	}
}
