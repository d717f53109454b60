package pgerr

import (
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// FileRefused reports whether the server could not work on a file of its own, for a
// reason that SQLSTATE has no code for: only a full disk and one that fails have. A
// quota and a limit of the file's size come as internal errors, a disk that has
// become read-only as a missing right (errcode_for_file_access of PostgreSQL), so the
// place in the server tells.
func FileRefused(pg *pgconn.PgError) bool {
	if pg.Code != CodeInternal && pg.Code != CodeNoPrivilege {
		return false
	}
	switch pg.File {
	case "fd.c":
		return pg.Routine != "ReadDirExtended" // a folder that a function was asked to list
	case "md.c", "buffile.c", "slru.c", "xlog.c":
		return true
	}
	return false
}

// noRoom reports whether the server could not make a file larger.
func noRoom(pg *pgconn.PgError) bool {
	if pg.Code == CodeDiskFull {
		return true
	}
	return FileRefused(pg) && (strings.HasPrefix(pg.Routine, "mdextend") || pg.Routine == "mdzeroextend" || pg.Routine == "BufFileDumpBuffer")
}

// LacksResources reports whether the server has no memory, connection, lock or buffer to
// spare. That all buffers are in use has no code.
func LacksResources(pg *pgconn.PgError) bool {
	return Class(pg.Code) == ClassResources || pg.Code == CodeInternal && pg.Routine == "StrategyGetBuffer"
}
