package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// Failpoints are armed by files, which every pod of a yard sees.

func armFile(dir, what string) string { return filepath.Join(dir, "arm-"+what) }

// arm lets a failpoint work from now on.
func (y *yard) arm(what string) {
	y.t.Helper()
	require.NoError(y.t, os.WriteFile(armFile(y.dir, what), nil, 0o600))
}

// disarm ends what arm began.
func (y *yard) disarm(what string) {
	y.t.Helper()
	require.NoError(y.t, os.Remove(armFile(y.dir, what)))
}

func (p *podProcess) armed(what string) bool {
	_, err := os.Stat(armFile(p.spec.Dir, what))
	return err == nil
}

// crashAt ends the process at a record of completions, if it is the first to find
// the failpoint armed.
func (p *podProcess) crashAt(place string, record persistence.Record) {
	if p.spec.Fail.Record != place || !succeeds(record) || os.Remove(armFile(p.spec.Dir, place)) != nil {
		return
	}
	for _, t := range record.Transitions {
		p.ledger.note("crashed", t.Task.Run.String(), strconv.Itoa(int(t.Task.Step)))
	}
	p.leave(place)
}

func succeeds(record persistence.Record) bool {
	for _, t := range record.Transitions {
		if t.Report == lifecycle.Succeeded {
			return true
		}
	}
	return false
}

// leave ends the process as a crash does.
func (p *podProcess) leave(where string) {
	p.ledger.note("left", "", where)
	os.Exit(exitCrash)
}

// lead makes a call of the leader. If it waits for the test, it is made whatever
// the pod has heard meanwhile, and the ledger has under which epoch and what came of it.
func lead[T any](ctx context.Context, p *podProcess, epoch int64, call func(context.Context) (T, error)) (T, error) {
	if !p.spec.Fail.Lead || !p.armed("lead") {
		return call(ctx)
	}
	p.ledger.note("held", "", strconv.FormatInt(epoch, 10))
	ctx = context.WithoutCancel(ctx)
	for p.armed("lead") {
		_ = pause(ctx, lookGap) // the loop looks by itself
	}
	value, err := call(ctx)
	what := "accepted"
	switch {
	case errors.Is(err, persistence.ErrDeposed):
		what = "refused"
	case err != nil:
		what = "unanswered"
	}
	p.ledger.note(what, "", fmt.Sprintf("%d %v", epoch, err))
	return value, err
}

// rescue says what a look for dead pods did.
func rescue(expired persistence.Expired, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d pods, %d tasks", len(expired.Pods), expired.Tasks)
}
