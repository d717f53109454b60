package troupe

// Setting describes one field of [Config].
type Setting struct {
	Field   string // of Config
	Env     string // variable that the command troupe reads; "": cannot be set there
	Default string
	Spec    string // what the specification that troupe grew from used; "": nothing of the kind
	Meaning string
}

// Settings returns the table of all fields of [Config], in their order.
// docs/configuration.md is printed from it.
func Settings() []Setting {
	return []Setting{
		{"Schema", "TROUPE_SCHEMA", "troupe", "public", "schema of the tables, up to 40 lower-case letters, digits and underscores, not `pg_` first; two schemas in one database never meet"},
		{"DirectURL", "TROUPE_DIRECT_URL", "as the pool", "", "connection string past the proxy (PgBouncer in transaction mode) of the pool, for the lease, the leader's lock, LISTEN and the stream (docs/connections.md)"},
		{"PodName", "TROUPE_POD_NAME", "host name", "worker id", "shown to people; need not be unique"},
		{"Slots", "TROUPE_SLOTS", "100", "10 threads", "tasks that this pod executes at once"},
		{"QueueSlots", "TROUPE_QUEUE_SLOTS", "none", "", "queues to serve, each with slots of its own, as in `default=10,gpu=1`; none: `default` and those that registered steps name share Slots"},
		{"ClaimBatch", "TROUPE_CLAIM_BATCH", "200", "free threads", "most tasks of one claim; never more than the free slots"},
		{"TenantLimit", "TROUPE_TENANT_LIMIT", "0 (none)", "", "most running tasks of one tenant, over all pods"},
		{"PoolSize", "TROUPE_POOL_SIZE", "6", "shared pool", "connections of the engine's own pool, and one more renews its lease; step functions never use them"},
		{"ClientOnly", "", "false", "", "the engine only triggers and reads: it has no slots, claims nothing, never leads, and is no pod that could execute a step. Pods without it must register the same workflows"},
		{"Pulse", "TROUPE_PULSE", "5s", "30s heartbeat", "between two renewals of the pod's lease"},
		{"Lease", "TROUPE_LEASE", "15s", "2m staleness", "how long a renewal lasts; a dead pod's tasks are taken over after it"},
		{"StopGrace", "TROUPE_STOP_GRACE", "30s", "30s", "how long Stop lets tasks finish before it hands them back"},
		{"CancelGrace", "TROUPE_CANCEL_GRACE", "30s", "", "how long running tasks of a canceled run may go on"},
		{"Sweep", "TROUPE_SWEEP", "30s", "200ms poll", "between two looks at the tables while wakes arrive"},
		{"SweepDegraded", "TROUPE_SWEEP_DEGRADED", "1s", "200ms poll", "the same while they do not"},
		{"LeaderPing", "TROUPE_LEADER_PING", "1s", "", "between two pings of the leader; its session ends when it was silent for two of them and a second, and not before 3 s"},
		{"LeaderSilence", "TROUPE_LEADER_SILENCE", "2.5s", "", "silence of the leader after which others try to lead"},
		{"LeaderTry", "TROUPE_LEADER_TRY", "500ms", "60s", "between two tries to lead"},
		{"AttemptTimeout", "TROUPE_ATTEMPT_TIMEOUT", "0 (none)", "none", "longest attempt of steps that name none"},
		{"InTxTimeout", "TROUPE_IN_TX_TIMEOUT", "30s", "", "the same for steps with InTx, which hold a transaction open"},
		{"Retry", "", "1 attempt; when retried: first 1s, factor 2, cap 60s (or first, if longer), jitter 0.1", "0 retries; 1s, factor 2, cap 60s", "retry policy of steps that name none"},
		{"MaxLost", "TROUPE_MAX_LOST", "3", "retries", "attempts lost with their pod after which a task fails as a poison pill; 1 wants no second attempt, else up to twice as many while other pods die"},
		{"PayloadLimit", "TROUPE_PAYLOAD_LIMIT", "1048576", "", "bytes of one input, output or signal"},
		{"PayloadMemory", "TROUPE_PAYLOAD_MEMORY", "268435456", "", "bytes of inputs and outputs that the tasks of a pod hold; others wait, and a task that needs more reads alone (docs/payloads.md)"},
		{"IntakePending", "TROUPE_INTAKE_PENDING", "10000", "", "triggers and signals waiting to be stored; messages beyond it are refused as overloaded, calls wait"},
		{"Retention", "", "for ever", "", "how long ended runs are kept, by the class that Retain gives a workflow; zero: for ever, as all of RetainForever. A day of runs is dropped at once"},
		{"DeadLetterRetention", "TROUPE_DEAD_LETTER_RETENTION", "0s (for ever)", "until purged", "how long dead letters are kept, whatever becomes of their runs"},
		{"DeadReasons", "TROUPE_DEAD_REASONS", "all", "all; or non-retryable ones only", "failures for good that become dead letters, as in `non_retryable,poison,unregistered,undecodable`; none: all"},
		{"DefaultTenant", "TROUPE_DEFAULT_TENANT", "default", "", "tenant of triggers that name none"},
		{"Codec", "", "JSON", "kotlinx JSON", "how inputs, outputs and progress are encoded"},
		{"Wrap", "", "none", "", "middleware: called around every attempt of a step function (docs/tracing.md)"},
		{"TraceContext", "", "none", "", "finds the trace context of a caller, for what it triggers or requeues (docs/tracing.md)"},
		{"Tracer", "", "that of the pool", "", "pgx tracer of the statements on the engine's own connections (docs/tracing.md)"},
		{"Logger", "", "none", "", "where the engine logs; nothing is logged anywhere else. A handler that blocks holds up no work: 1,024 records wait for it, more are dropped and counted"},
		{"Metrics", "", "none", "", "where the engine counts; docs/metrics.md has the names"},
		{"System", "", "its own", "", "actor system to live in"},
	}
}
