package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpecificationsAreMapped keeps docs/spec-003.md true: every item of the specification has a
// row, and every row names a test that exists, or says why it is otherwise.
func TestSpecificationsAreMapped(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs/spec-003.md"))
	require.NoError(t, err)
	for _, finding := range unmapped(string(text), strings.Fields(spec003), testNames(repository(t))) {
		t.Error(finding)
	}
}

// spec003 has the items of the specification by their names in it.
const spec003 = `
	TYPE Input Output new on_start on_activity_completed on_activity_failed on_timer_fired is_completed result
	ScheduleActivity StartTimer CompleteWorkflow FailWorkflow ScheduleChildWorkflow None
	retry_policy schedule_to_start_timeout start_to_close_timeout heartbeat_timeout circuit_breaker
	Activity::TYPE execute attempt_id attempt max_attempts workflow_id activity_id heartbeat is_cancelled
	workflow_instances workflow_events sequence_num task_queue dead_letter_queue circuit_breaker_state
	WorkflowStarted WorkflowCompleted WorkflowFailed WorkflowCancelled ActivityScheduled ActivityStarted ActivityCompleted
	ActivityFailed will_retry ActivityTimedOut timeout_type TimerStarted TimerFired TimerCancelled
	ChildWorkflowStarted ChildWorkflowCompleted ChildWorkflowFailed
	create_workflow append_events load_events update_workflow_status enqueue_task claim_task heartbeat_task complete_task
	fail_task reclaim_stale_tasks move_to_dlq requeue_from_dlq list_dlq
	initial_interval max_interval backoff_coefficient jitter non_retryable_errors exponential delay_for_attempt
	failure_threshold success_threshold reset_timeout window_size Closed Open HalfOpen allow record_success record_failure
	RateLimiter check_timeouts handle_dead_task requeue new_options purge_older_than
	worker_id activity_types concurrency poll_interval poll_backoff shutdown start_workflow activate_workflow replay
	test_simple_workflow_execution test_activity_retry_on_failure test_circuit_breaker_opens_on_failures
	test_workflow_recovery_after_crash test_dlq_after_max_retries
	activity_latency workflow_throughput concurrent_workers StressConfig simple_workflow retry_example circuit_breaker_example`

var (
	mappedRow = regexp.MustCompile(`^\| ([^|]+) \| ([^|]*) \| ([^|]+) \|$`)
	inCode    = regexp.MustCompile("`([^`]+)`")
)

// unmapped finds items without a row, rows that show nothing, and tests that do not exist.
func unmapped(page string, items []string, exists map[string]bool) (findings []string) {
	rows := map[string]bool{}
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		row := mappedRow.FindStringSubmatch(line)
		if row == nil || row[1] == "---" || i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|---") {
			if strings.Contains(line, "workflow_events") { // its table is named where its rows are
				rows["workflow_events"] = true
			}
			continue
		}
		for _, name := range inCode.FindAllStringSubmatch(row[1], -1) {
			rows[name[1]] = true
		}
		if strings.HasPrefix(row[3], "Otherwise: ") {
			continue
		}
		tests := inCode.FindAllStringSubmatch(row[3], -1)
		for _, test := range tests {
			if !exists[test[1]] {
				findings = append(findings, row[1]+" names "+test[1]+", and there is no such test")
			}
		}
		if len(tests) == 0 {
			findings = append(findings, row[1]+" names no test, and does not say why it is otherwise")
		}
	}
	for _, item := range items {
		if !rows[item] {
			findings = append(findings, item+" has no row")
		}
	}
	return findings
}

func TestUnmappedFindsEachKind(t *testing.T) {
	t.Parallel()
	exists := map[string]bool{"TestA": true, "contract: c/d": true}
	page := "| trait | troupe | shown by |\n|---|---|---|\n| `a`, `b` | text | `TestA`, `contract: c/d` |\n| `c` | text | Otherwise: so |\n"
	require.Empty(t, unmapped(page, []string{"a", "b", "c"}, exists))
	require.Equal(t, []string{"d has no row"}, unmapped(page, []string{"d"}, exists))
	require.Equal(t, []string{"`d` names TestB, and there is no such test"}, unmapped(page+"| `d` | text | `TestB` |\n", []string{"d"}, exists))
	require.Equal(t, []string{"`d` names no test, and does not say why it is otherwise"}, unmapped(page+"| `d` | text | by trust |\n", nil, exists))
}
