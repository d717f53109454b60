package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/sessions"
)

// The names in this file are what the rooms below this one called their parts before
// they were moved there. They go once no file of this package uses them.

const (
	callMax              = pgerr.CallMax
	classConnection      = pgerr.ClassConnection
	classOperator        = pgerr.ClassOperator
	classRollback        = pgerr.ClassRollback
	classSystem          = pgerr.ClassSystem
	codeDiskFull         = pgerr.CodeDiskFull
	codeDivisionByZero   = pgerr.CodeDivisionByZero
	codeIdleInTx         = pgerr.CodeIdleInTx
	codeInternal         = pgerr.CodeInternal
	codeLockNotAvailable = pgerr.CodeLockNotAvailable
	codeNoPrivilege      = pgerr.CodeNoPrivilege
	codeNoStatement      = pgerr.CodeNoStatement
	codeNotSupported     = pgerr.CodeNotSupported
	codeQueryCanceled    = pgerr.CodeQueryCanceled
	codeReadOnly         = pgerr.CodeReadOnly
	codeTxTimeout        = pgerr.CodeTxTimeout
	codeUndefinedColumn  = pgerr.CodeUndefinedColumn
	codeUndefinedRoutine = pgerr.CodeUndefinedRoutine
	codeUndefinedSchema  = pgerr.CodeUndefinedSchema
	codeUndefinedTable   = pgerr.CodeUndefinedTable
	codeUniqueViolation  = pgerr.CodeUniqueViolation
)

type meddledError = pgerr.MeddledError

var (
	bounded          = pgerr.Bounded
	class            = pgerr.Class
	errLockTimeout   = pgerr.ErrLockTimeout
	errRegistryLost  = pgerr.ErrRegistryLost
	errRowsLost      = pgerr.ErrRowsLost
	errSchemaRefuses = pgerr.ErrSchemaRefuses
	errTrial         = pgerr.ErrTrial
	fileRefused      = pgerr.FileRefused
	hasCode          = pgerr.HasCode
	idsSpent         = pgerr.IDsSpent
	lacksResources   = pgerr.LacksResources
	placeTaken       = pgerr.PlaceTaken
	refusesAnything  = pgerr.RefusesAnything
	retry            = pgerr.Retry
	stalePlan        = pgerr.StalePlan
	translate        = pgerr.Translate
	translated       = pgerr.Translated
	unreadable       = pgerr.Unreadable

	instant    = pgsql.Instant
	labelText  = pgsql.LabelText
	made       = pgsql.MadeAt
	storable   = pgsql.Storable
	textOrNull = pgsql.TextOrNull
)

type (
	instants   = pgsql.Instants
	named      = pgsql.Named
	querier    = pgsql.Querier
	statement  = pgsql.Statement
	statements pgsql.Statements
	uuids      = pgsql.UUIDs
)

// batch has the methods of pgsql.Batch by their former names.
type batch struct{ pgsql.Batch }

// former are the fields of pgsql.DB by their former names.
type former struct {
	pool       *sessions.Pool // now: Conns
	schema     string         // now: Schema
	statements statements     // now: Statements
}

func orZero[T any](value *T) T { return pgsql.OrZero(value) }

func send(ctx context.Context, on querier, b *batch) error { return pgsql.Send(ctx, on, &b.Batch) }

func (s statements) bind(name string, args named) (string, []any) {
	return pgsql.Statements(s).Bind(name, args)
}

func (b *batch) add(name string, args named) *pgx.QueuedQuery { return b.Add(name, args) }

func (b *batch) ahead() *pgx.Batch { return b.Ahead() }

func (s *Store) newBatch() *batch { return &batch{*s.NewBatch()} }

func (s *Store) write(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	return s.Write(ctx, do)
}

func (s *Store) writeShort(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	return s.WriteShort(ctx, do)
}

func (s *Store) exec(ctx context.Context, on querier, name string, args named) error {
	return s.Exec(ctx, on, name, args)
}

func (s *Store) readClock(ctx context.Context, on querier, into *time.Time) error {
	return s.ReadClock(ctx, on, into)
}

func (s *Store) lockKey(parts ...string) int64 { return s.LockKey(parts...) }

func (s *Store) guest(ctx context.Context) (call context.Context, leave func(), err error) {
	return s.Guest(ctx)
}

func (s *Store) largeGuest(ctx context.Context) (call context.Context, leave func(), err error) {
	return s.LargeGuest(ctx)
}

func (s *Store) knowing(ctx context.Context, call func() error) error { return s.Knowing(ctx, call) }

func bisect[T any](items []T, do func(items []T) error, blames func(error) bool, alone func(item T, err error) error) error {
	return pgsql.Bisect(items, do, blames, alone)
}

func (s *Store) queueMatch(b *batch, known names) { s.Registry.queueMatch(&b.Batch, known) }
