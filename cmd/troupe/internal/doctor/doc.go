// Package doctor examines an installation: the server, the role, the schema, the
// pods and their work. Every finding comes with what mends it. It changes
// nothing, waits for no lock for long, and looks at the catalog rather than at
// the tables where that is enough.
package doctor
