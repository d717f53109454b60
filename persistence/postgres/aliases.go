package postgres

import (
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
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
	errDependents    = pgerr.ErrDependents
	errLockTimeout   = pgerr.ErrLockTimeout
	errRegistryLost  = pgerr.ErrRegistryLost
	errRowsLost      = pgerr.ErrRowsLost
	errSchemaRefuses = pgerr.ErrSchemaRefuses
	errTrial         = pgerr.ErrTrial
	fileRefused      = pgerr.FileRefused
	hasCode          = pgerr.HasCode
	idsSpent         = pgerr.IdsSpent
	lacksResources   = pgerr.LacksResources
	placeTaken       = pgerr.PlaceTaken
	refusesAnything  = pgerr.RefusesAnything
	retry            = pgerr.Retry
	stalePlan        = pgerr.StalePlan
	translate        = pgerr.Translate
	translated       = pgerr.Translated
	unreadable       = pgerr.Unreadable
)
