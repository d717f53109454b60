package pgdev

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of the environment variables that choose a source.
const (
	// EnvDatabaseURL names a server to use instead of starting one.
	EnvDatabaseURL = "TROUPE_DATABASE_URL"
	// EnvBinaries names the folder with initdb and postgres, or its parent.
	EnvBinaries = "TROUPE_PG_BIN"
)

// ErrNoServer is returned by Start when no source of a PostgreSQL exists. Its
// text is the remedy.
var ErrNoServer = errors.New("no PostgreSQL found: install its server (Debian: apt-get install postgresql)," +
	" or name one in TROUPE_DATABASE_URL, or name a folder with initdb and postgres in TROUPE_PG_BIN")

const (
	majorMin = 15 // the oldest major version that troupe supports

	readyTimeout = 60 * time.Second      // until a server answers; crash recovery is the slow case
	stopTimeout  = 10 * time.Second      // a fast stop waits for walsenders; beyond it the stop is immediate
	pollInterval = 15 * time.Millisecond // a start takes ≈ 100 ms, so this adds little
	launchMax    = 40                    // attempts when the port or the shared memory is taken

	socketPathMax = 90 // bytes; the kernel's limit is 107 with the socket's own name
)

// Options say which server Start starts. The zero value is a durable server in
// a temporary folder.
type Options struct {
	// Dir holds the data, the log and the password; it is created, and kept by
	// Stop. Empty means a temporary folder that Stop removes.
	Dir string
	// Settings override postgresql.conf; the defaults are wal_level=logical,
	// 32 walsenders and replication slots, 300 connections.
	Settings map[string]string
	// Volatile turns fsync off, and keeps a temporary folder in memory where there
	// is room (Linux: 2 GiB free in /dev/shm): faster, and a power failure loses
	// the data.
	Volatile bool
	// Private ignores TROUPE_DATABASE_URL.
	Private bool
	// Download allows fetching binaries when none are found.
	Download bool
	// Major is the major version to run; 0 means that of the data in Dir, else
	// the newest found.
	Major int
	// Log gets the server's starts and stops; nil discards them.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// configuration renders postgresql.conf for a server on the port. A file, not
// the command line, so that alter system still has the last word.
func (o Options) configuration(port int, socketDir string) string {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(port),
		"unix_socket_directories": socketDir,
		"unix_socket_permissions": "0700",
		"wal_level":               "logical",
		"max_wal_senders":         "32",
		"max_replication_slots":   "32",
		"max_connections":         "300",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_line_prefix":         "%m [%p] ",
	}
	if o.Volatile {
		settings["fsync"] = "off"
		settings["full_page_writes"] = "off"
		settings["max_wal_size"] = "256MB" // a checkpoint costs nothing then, and the folder stays small
	}
	maps.Copy(settings, o.Settings)
	var text strings.Builder
	text.WriteString("# written by troupe at every start\n")
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		text.WriteString(name + " = '" + strings.ReplaceAll(settings[name], "'", "''") + "'\n")
	}
	return text.String()
}
