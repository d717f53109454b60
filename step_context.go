package troupe

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/program"
)

// TaskInfo says which task a step function executes.
type TaskInfo struct {
	Run            RunID
	Workflow       string
	Tenant         string
	Step           string            // of an element of a [Map] with its number, as "files[17]"
	Item           int               // which element of a Map it is: the index of its item; -1: it is none
	Attempt        int               // counted from 1
	MaxAttempts    int               // 1: never retried
	AttemptID      string            // unique to this attempt
	IdempotencyKey string            // the same for every attempt of this task: give it to whatever the step calls
	Labels         map[string]string // as given to the trigger, the caller's copy
	TraceContext   string            // as given to the trigger, or found by Config.TraceContext; "": none
	QueuedAt       time.Time         // when the step became ready for this attempt; by the database's clock, as is the next
	StartedAt      time.Time         // when this pod got the attempt
}

// Task describes the task that a step function executes. Outside of one, as in
// a test that calls the function itself, it is zero but for Item.
func Task(ctx context.Context) TaskInfo {
	attempt := actors.AttemptFrom(ctx)
	if attempt == nil {
		return TaskInfo{Item: -1}
	}
	t := attempt.Info()
	return TaskInfo{
		Run: t.Run, Workflow: t.Workflow, Tenant: t.Tenant, Step: t.Step, Item: t.Item,
		Attempt: t.Attempt, MaxAttempts: t.MaxAttempts, AttemptID: t.AttemptID,
		IdempotencyKey: t.IdempotencyKey, Labels: maps.Clone(t.Labels), TraceContext: t.TraceContext,
		QueuedAt: t.QueuedAt, StartedAt: t.StartedAt,
	}
}

// Heartbeat says that a step function is alive and how far it has come.
// Progress is stored with the next pulse of the pod, the latest only, and the
// next attempt finds it with [Progress]; nil stores nothing. More than
// Config.PayloadLimit is refused with an error. Heartbeat never blocks. It
// returns why the attempt is over once it is, so a loop can end with it.
func Heartbeat(ctx context.Context, progress any) error {
	attempt := actors.AttemptFrom(ctx)
	if attempt == nil {
		return context.Cause(ctx)
	}
	if progress == nil {
		return attempt.Heartbeat(nil)
	}
	encoded, err := program.Encode(progressCodec(ctx, attempt), progress)
	if err != nil {
		return terminal(classEncoding, fmt.Errorf("encode progress of type %T: %w", progress, err))
	}
	return attempt.Heartbeat(encoded)
}

// Progress returns what an earlier attempt of this task last gave to
// [Heartbeat], and whether there is any that a T can hold.
func Progress[T any](ctx context.Context) (T, bool) {
	var none T
	attempt := actors.AttemptFrom(ctx)
	if attempt == nil {
		return none, false
	}
	encoded := attempt.Info().LastProgress
	if encoded == nil {
		return none, false
	}
	progress, err := program.Decode[T](progressCodec(ctx, attempt), encoded)
	if err != nil {
		return none, false
	}
	return progress, true
}

// Tx returns the transaction of a step with [InTx]. The engine commits it with
// the step's completion, or rolls it back if the step fails; Commit and
// Rollback are refused. A step that ends it with a statement of its own fails
// for good, whatever its [Retry]. It ends with the step function, and belongs to its
// goroutine: what the function has started must be done with it before it
// returns. Without one it panics, which fails the attempt: the
// step lacks InTx, or the engine runs on a store without PostgreSQL.
func Tx(ctx context.Context) pgx.Tx {
	attempt := actors.AttemptFrom(ctx)
	if attempt == nil {
		panic("troupe: Tx was called outside a step function")
	}
	switch tx := attempt.Tx().(type) {
	case pgx.Tx:
		return tx
	case nil:
		panic(fmt.Sprintf("troupe: step %q has no transaction: declare it with InTx", attempt.Info().Step))
	default:
		panic(fmt.Sprintf("troupe: the transaction is a %T: the engine does not run on PostgreSQL", tx))
	}
}

// progressCodec returns what encodes and decodes the progress of an attempt.
func progressCodec(ctx context.Context, attempt actors.Attempt) actors.Codec {
	codec := scopeOf(ctx).codec
	if _, told := codec.(PayloadCodec); !told {
		return codec
	}
	task := attempt.Info()
	return actors.CodecFor(codec, PayloadPlace{Tenant: task.Tenant, Workflow: task.Workflow, Step: task.Step, Kind: PayloadProgress})
}
