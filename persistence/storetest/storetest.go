package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/snapshot"
	"github.com/troupe-dev/troupe/workflow"
)

// Harness is one fresh store and what the contract needs beyond its port.
type Harness struct {
	Store persistence.Store
	// Begin opens a transaction of the adapter's own type.
	Begin func(ctx context.Context) (Tx, error)
	// Advance makes the store believe that d has passed: every stored lease and
	// timer is due by so much earlier.
	Advance func(ctx context.Context, d time.Duration) error
	// SetTimer stores a timer as a pod of another version would.
	SetTimer func(ctx context.Context, timer snapshot.Timer) error
	// Forget removes what would tell a run that its child runs have ended, as if a pod of an
	// older version had ended them.
	Forget func(ctx context.Context, run workflow.RunID) error
	// Snapshot returns everything the store holds, sorted.
	Snapshot func(ctx context.Context) (snapshot.Tables, error)
	// Analyze makes the store gather statistics of its tables as they are; nil:
	// it has none.
	Analyze func(ctx context.Context) error
	// Block keeps the store from rows until release is called; nil, or ErrCannotBlock: this
	// cannot be done.
	Block func(ctx context.Context, b Blocked) (release func(), err error)
}

// Tx is a transaction of a user.
type Tx struct {
	Value    any // what TriggerInTx takes
	Commit   func(ctx context.Context) error
	Rollback func(ctx context.Context) error
}

// Open returns a fresh store that ends with the test. It refuses the payload
// [BadPayload] as an output or an input.
type Open func(t *testing.T) Harness

// BadPayload is a payload that stores under test refuse: a value that the
// database does not take. Adapters arrange for it, by a constraint or a hook.
const BadPayload = `"storetest: bad payload"`

// rule is one case of the contract.
type rule struct {
	name string // topic and case
	text string // the promise that a failure breaks
	run  func(w *world)
}

// Run checks a store against the whole contract.
func Run(t *testing.T, open Open) {
	t.Helper()
	for _, topic := range contract() {
		for _, r := range topic {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("contract: %s", r.text)
					}
				})
				w := newWorld(t, open(t))
				w.open = open
				r.run(w)
				w.checkInvariants()
			})
		}
	}
}

// contract returns the cases by topic.
func contract() [][]rule {
	return [][]rule{
		registryRules, triggerRules, triggerTimeRules, keyRules, inTxRules, drainRules,
		claimRules, grantRules, recordRules, repeatRules, refusalRules, recordInTxRules,
		branchRules, failureRules, handlerRules, inlineRules, takeRules, fairnessRules, manyTenantsRules,
		tenantLimitRules, cancelRules, graceRules, timerRules, waitRules, leaseRules, expiryRules,
		suspectRules, parkingRules, readRules, viewRules, queueRules, backlogRules, endRules, situationRules, listRules, filterRules, countRules, isolationRules, historyRules, crowdRules,
		deadRules, requeueRules, blockedRules, dynamicRules, signalRules, deadlineRules, childRules, familyRules, mapRules, mapRequeueRules, mapFairnessRules, machineRules, machineStoredRules, machineRequeueRules, machineTrimRules,
	}
}

// CheckInvariants lists what is wrong with a state of a store; see
// snapshot.Check.
func CheckInvariants(tables snapshot.Tables) []string { return snapshot.Check(tables) }

func (w *world) checkInvariants() {
	w.t.Helper()
	require.Empty(w.t, snapshot.Check(w.snapshot()), "invariants")
}
