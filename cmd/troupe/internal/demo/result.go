package demo

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/census"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
)

// Result is the last line that --json prints.
type Result struct {
	Runs              int     `json:"runs"`
	Completed         int     `json:"completed"`
	Failed            int     `json:"failed"`
	PodsKilled        int     `json:"pods_killed"`
	RecoveredTasks    int     `json:"recovered_tasks"`
	DoubleCompletions int     `json:"double_completions"`
	Lost              int     `json:"lost"`
	TotalsMatch       bool    `json:"totals_match"`
	Seconds           float64 `json:"seconds"`
}

// outcome is all that the report tells.
type outcome struct {
	audit    audit
	straight census.Total
	loop     time.Duration // that the straight loop took
	seconds  float64
	wanted   int // runs
	tenants  []tenantLine
	pods     []string
	victim   string
	held     int           // tasks that it executed when it was killed
	led      bool          // it was the leader
	reign    time.Duration // from the kill until another one led; 0: none did
	killed   time.Duration // when, from the first trigger
	tasks    time.Duration // from the first trigger to the last end
}

func (o outcome) killedCount() int {
	if o.victim == "" {
		return 0
	}
	return 1
}

func (o outcome) result() Result {
	return Result{
		Runs: o.audit.runs, Completed: o.audit.completed, Failed: o.audit.failed, PodsKilled: o.killedCount(),
		RecoveredTasks: o.audit.account.Regained, DoubleCompletions: o.audit.doubles(), Lost: o.audit.lost(),
		TotalsMatch: o.audit.total == o.straight, Seconds: float64(int(o.seconds*100)) / 100,
	}
}

// check is one thing that must hold.
type check struct {
	holds bool
	text  string
}

func (o outcome) checks() []check {
	a, account := o.audit, o.audit.account
	return []check{
		{
			a.completed == o.wanted && a.runs == o.wanted,
			fmt.Sprintf("%s of %s runs completed", grouped(a.completed), grouped(o.wanted)),
		},
		{a.total == o.straight, "the totals are those of the straight loop"},
		{o.victim != "", "one pod was killed"},
		{a.lost() == 0, output.Several(a.lost(), "run or completion lost", "runs or completions lost")},
		{a.doubles() == 0, output.Count(a.doubles(), "double completion")},
		{
			account.balanced(),
			fmt.Sprintf("%s executions match the history (%d repeated after a loss, %d unexplained)",
				grouped(account.Begun), account.Repeated, account.Phantom+account.Excess+account.Missing),
		},
	}
}

func (o outcome) holds() bool {
	for _, c := range o.checks() {
		if !c.holds {
			return false
		}
	}
	return true
}
