package demo

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/census"
	"github.com/troupe-dev/troupe/lifecycle"
)

//go:embed sql/runs.sql
var runsSQL string

//go:embed sql/history.sql
var historySQL string

//go:embed sql/lateness.sql
var latenessSQL string

//go:embed sql/recovery.sql
var recoverySQL string

//go:embed sql/executed.sql
var executedSQL string

// audit is what is in the database and in the ledgers when all is over.
type audit struct {
	runs      int
	completed int
	failed    int
	missing   int                 // runs that a pod acknowledged and that did not end, or are not there
	double    int                 // runs that ended more than once
	total     census.Total        // sum of what the runs reported
	waits     map[string]quantity // from trigger to first start, by tenant
	probes    quantity            // the same, on idle pods
	lateness  quantity            // of sleeps
	executed  map[string]int      // attempts begun, by pod
	account   account
	taken     *float64 // seconds from the kill until the first lost task was taken back; nil: none was lost
	resumed   *float64 // seconds from the kill until the last lost task ran again
}

// lost counts acknowledged runs without an end and completions without an effect.
func (a audit) lost() int { return a.missing + a.account.Missing }

func (a audit) doubles() int { return a.double + a.account.Double }

// takeAudit reads it all. The ids are those of the runs that pods acknowledged.
func takeAudit(ctx context.Context, w *watcher, pods troop, acknowledged []string, killedAt time.Time) (audit, error) {
	a := audit{waits: map[string]quantity{}, executed: map[string]int{}}
	if err := a.readRuns(ctx, w, acknowledged); err != nil {
		return a, err
	}
	if err := a.readTimes(ctx, w, killedAt); err != nil {
		return a, err
	}
	history, err := readHistory(ctx, w)
	if err != nil {
		return a, err
	}
	ledgers, err := readLedgers(pods.ledgers())
	if err != nil {
		return a, err
	}
	a.account = balance(ledgers, history)
	return a, nil
}

func (a *audit) readRuns(ctx context.Context, w *watcher, acknowledged []string) error {
	var (
		id, tenant  string
		state, ends int
		wait        *float64
		output      []byte
		unreadable  error
	)
	ended := map[string]bool{}
	into := []any{&id, &tenant, &state, &ends, &wait, &output}
	err := w.each(ctx, runsSQL, []any{censusName}, into, func() {
		a.runs++
		if ends > 1 {
			a.double++
		}
		if wait != nil {
			a.waits[tenant] = append(a.waits[tenant], *wait)
		}
		switch lifecycle.State(state) { //nolint:exhaustive // a run that has not ended is missing
		case lifecycle.Completed:
			a.completed++
			ended[id] = true
			var total census.Total
			if err := json.Unmarshal(output, &total); err != nil {
				unreadable = fmt.Errorf("output of run %s: %w", id, err)
			}
			a.total = a.total.Add(total)
		case lifecycle.Failed, lifecycle.Canceled:
			a.failed++
			ended[id] = true
		}
	})
	for _, run := range acknowledged {
		if !ended[run] {
			a.missing++
		}
	}
	if err != nil {
		return err
	}
	if unreadable != nil {
		return unreadable
	}
	return w.each(ctx, runsSQL, []any{probeName}, into, func() {
		if wait != nil {
			a.probes = append(a.probes, *wait)
		}
	})
}

func (a *audit) readTimes(ctx context.Context, w *watcher, killedAt time.Time) error {
	var late float64
	if err := w.each(ctx, latenessSQL, nil, []any{&late}, func() { a.lateness = append(a.lateness, late) }); err != nil {
		return err
	}
	if err := w.each(ctx, recoverySQL, []any{killedAt}, []any{&a.taken, &a.resumed}, func() {}); err != nil {
		return err
	}
	var pod int64
	var attempts int
	return w.each(ctx, executedSQL, nil, []any{&pod, &attempts}, func() { a.executed[w.names[pod]] += attempts })
}

func readHistory(ctx context.Context, w *watcher) (map[taskKey]taskHistory, error) {
	history := map[taskKey]taskHistory{}
	var key taskKey
	var task taskHistory
	into := []any{&key.run, &key.step, &task.starts, &task.losses, &task.retries, &task.completed, &task.slept, &task.woken}
	err := w.each(ctx, historySQL, nil, into, func() { history[key] = task })
	return history, err
}
