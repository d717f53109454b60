// Package pgdev runs a private PostgreSQL for the demo, for development and
// for tests. It is no production tool.
//
// [Start] takes the first source that exists:
//
//  1. TROUPE_DATABASE_URL: nothing is started, databases are created on that
//     server ([Options.Private] turns this source off).
//  2. Server binaries on this machine: TROUPE_PG_BIN (then only there), the
//     folders of the usual packages, PATH, an earlier download.
//  3. With [Options.Download]: binaries fetched by
//     github.com/fergusstrange/embedded-postgres. Untested by this project
//     where no network is.
//
// A started server belongs to the process that started it. It ends with that
// process even if the process is killed: on Linux the kernel sends it SIGQUIT
// then (a crash stop, which PostgreSQL recovers from), elsewhere the next
// Start on the same folder ends it. A folder has one owner at a time, held by
// a file lock that the kernel frees with its process.
//
// PostgreSQL refuses to run as root, so for root the server runs as another
// user (see serverAccount), which must be able to enter its folder. It listens on
// 127.0.0.1 only, asks for a password of its own (random, kept beside the data),
// and is set up for logical replication.
package pgdev
