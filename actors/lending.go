package actors

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Lending is what a pool of connections has lent, at one moment.
type Lending struct {
	Taken int   // connections that somebody has
	Size  int   // connections that there are at most
	Count int64 // how often one was lent, since the pool was made
}

// lent is a Lending that was seen, and whether it was warned of.
type lent struct {
	Lending
	warned bool
}

// longestMax bounds the steps that a warning names.
const longestMax = 5

// watchLending warns once, at each pulse that it may, when every connection of
// the embedder's pool has been out since the last pulse, and nobody got one: a
// step function, or somebody else, has begun transactions and does not end them.
// The engine's own connections are others; steps with InTx wait, and those
// that take connections themselves.
func (a *runs) watchLending() {
	if a.rt.ports.Lending == nil {
		return
	}
	before := a.lent
	a.lent = lent{Lending: a.rt.ports.Lending()}
	if a.lent.Taken < a.lent.Size || a.lent.Lending != before.Lending {
		return
	}
	a.lent.warned = true
	if !before.warned {
		a.rt.log.LogAttrs(context.Background(), slog.LevelWarn,
			"no connection is left of the pool that was given to the engine: end the transactions that step functions, or others, begin and leave open",
			slog.Int("connections", a.lent.Size), slog.String("longest_running", a.longest()))
	}
}

// longest names the steps that have been running for the longest time.
func (a *runs) longest() string {
	tasks := slices.DeleteFunc(slices.Clone(a.carryover.ledger.held), func(h *held) bool { return h.pid == nil })
	slices.SortStableFunc(tasks, func(x, y *held) int { return cmp.Compare(x.since.UnixNano(), y.since.UnixNano()) })
	var names []string
	for _, h := range tasks[:min(len(tasks), longestMax)] {
		names = append(names, fmt.Sprintf("%s of run %v for %v", h.what, h.key.task.Run, a.rt.now().Sub(h.since).Round(time.Second)))
	}
	return strings.Join(names, ", ")
}
