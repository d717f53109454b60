package persistence

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/workflow"
)

const (
	// SignalIDMax bounds the id of a signal, in bytes.
	SignalIDMax = 255
	// InboxMax bounds the signals of a run that no step has taken. Senders that send at the same
	// instant may exceed it by one each.
	InboxMax = 10_000
	// SignalBatchMax bounds the signals of one SendSignals.
	SignalBatchMax = 500
)

// Signal is a payload for a run, under a name that steps of the run wait for.
type Signal struct {
	Run workflow.RunID // zero: the run that Key names
	// Key names the run that was triggered with it, and if a dead letter of that run was requeued,
	// the run that continues it.
	Key     RunKey
	Tenant  string // whose run it has to be; "": any. Of a Key its own counts.
	Name    string
	ID      string // a run takes one signal of each id
	Payload []byte
}

// SignalResult says what became of a signal.
type SignalResult uint8

// The results of a signal.
const (
	_               SignalResult = iota
	SignalStored                 // it is in the inbox of the run, and will be delivered
	SignalRepeated               // the run has one of this id; nothing stored
	SignalNoRun                  // the tenant has no such run
	SignalRunEnded               // nothing can take it any more
	SignalUnknown                // no step of the run waits for signals of this name: SignalAnswer.Names
	SignalInboxFull              // the run has InboxMax signals that no step has taken
	SignalBadRow                 // the store refuses a value: SignalAnswer.Err
	SignalBusy                   // a transaction of a caller sends one of the same id; nothing stored, ask again
)

// SignalAnswer answers one signal.
type SignalAnswer struct {
	Result SignalResult
	Run    workflow.RunID // unless there is none
	Names  []string       // SignalUnknown: those that steps of the run wait for
	Err    error          // SignalBadRow, SignalBusy
}

// Signals answers a batch.
type Signals struct {
	Now     time.Time
	Answers []SignalAnswer // in the order of the batch
	Wake    Wake
}

// Inbox stores signals for runs. DrainIntake delivers them: it numbers them in the order in which
// they were stored, and gives each to the first step that waits for its name. One that no step
// waits for stays until a step does, as long as the run lasts.
type Inbox interface {
	// SendSignals stores a batch of at most SignalBatchMax signals in one transaction. Each is
	// answered on its own. It locks no run. An id is remembered as long as the run is kept. One
	// whose id a transaction of a caller sends that stays open is answered SignalBusy.
	SendSignals(ctx context.Context, batch []Signal) (Signals, error)

	// SendSignalInTx stores one signal in the caller's transaction, of the adapter's own type: it
	// is delivered if and only if that commits. The run may have been triggered in the same
	// transaction. It takes no lock that others wait for, except those who send a signal of the
	// same id to the same run.
	SendSignalInTx(ctx context.Context, tx any, signal Signal) (SignalAnswer, error)
}

// Check returns as ErrBadRow why a store refuses a signal.
func (s *Signal) Check() error {
	var why string
	switch {
	case s.ID == "" || len(s.ID) > SignalIDMax:
		why = fmt.Sprintf("the id of a signal has 1 to %d bytes", SignalIDMax)
	case !utf8.ValidString(s.ID) || strings.ContainsRune(s.ID, 0):
		why = "the id of a signal is UTF-8 without NUL"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrBadRow, why)
}
