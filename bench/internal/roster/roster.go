// Package roster lists the systems that are compared.
package roster

import (
	"github.com/troupe-dev/troupe/bench/internal/bare"
	"github.com/troupe-dev/troupe/bench/internal/dbos"
	"github.com/troupe-dev/troupe/bench/internal/goworkflows"
	"github.com/troupe-dev/troupe/bench/internal/peer"
	"github.com/troupe-dev/troupe/bench/internal/river"
	"github.com/troupe-dev/troupe/bench/internal/troupe"
)

// All returns all of them, in the order in which tables show them.
func All() []peer.Entry {
	return []peer.Entry{troupe.Entry(), river.Entry(), dbos.Entry(), goworkflows.Entry(), bare.StoreEntry(), bare.SQLEntry()}
}

// Find finds one by name.
func Find(name string) (peer.Entry, bool) {
	for _, e := range All() {
		if e.Name == name {
			return e, true
		}
	}
	return peer.Entry{}, false
}
