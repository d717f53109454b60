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

// poolWatch watches the embedder's pool.
type poolWatch struct {
	usage  func() PoolUsage // nil: there is none
	last   PoolUsage
	warned bool
}

// longestMax bounds the steps that a warning names.
const longestMax = 5

// watchPool warns once if every connection of the embedder's pool has been in use since
// the last pulse and none was handed out: transactions were begun and not ended. Steps
// with InTx wait for a connection then, and so do steps that take one themselves. The
// engine has connections of its own.
func (a *runs) watchPool() {
	w := &a.pool
	if w.usage == nil {
		return
	}
	before := w.last
	w.last = w.usage()
	if w.last.InUse < w.last.Max || w.last != before {
		w.warned = false
		return
	}
	if !w.warned {
		a.rt.log.LogAttrs(context.Background(), slog.LevelWarn,
			"no connection is left of the pool that was given to the engine: end the transactions that step functions, or others, begin and leave open",
			slog.Int("connections", w.last.Max), slog.String("longest_running", a.longest()))
	}
	w.warned = true
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
