package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// fileRefused reports whether the server could not work on a file of its own, for a
// reason that SQLSTATE has no code for: only a full disk and one that fails have. A
// quota and a limit of the file's size come as internal errors, a disk that has
// become read-only as a missing right (errcode_for_file_access of PostgreSQL), so the
// place in the server tells.
func fileRefused(pg *pgconn.PgError) bool {
	if pg.Code != codeInternal && pg.Code != codeNoPrivilege {
		return false
	}
	switch pg.File {
	case "fd.c":
		return pg.Routine != "ReadDirExtended" // a folder that somebody asks for by its name
	case "md.c", "buffile.c", "slru.c", "xlog.c":
		return true
	}
	return false
}

// noRoom reports whether the server could not make a file larger.
func noRoom(pg *pgconn.PgError) bool {
	if pg.Code == codeDiskFull {
		return true
	}
	return fileRefused(pg) && (strings.HasPrefix(pg.Routine, "mdextend") || pg.Routine == "mdzeroextend" || pg.Routine == "BufFileDumpBuffer")
}

// lacksResources reports whether the server has no memory, connection, lock or buffer to
// spare. That all buffers are in use has no code.
func lacksResources(pg *pgconn.PgError) bool {
	return class(pg.Code) == classResources || pg.Code == codeInternal && pg.Routine == "StrategyGetBuffer"
}
