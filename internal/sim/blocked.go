package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/memory"
)

// blocking are the classes that block rows.
var blocking = []Class{StoreHeld, StoreTenant, StoreDamaged, NoDefinition}

// Blocks reports whether faults of a class block rows.
func Blocks(class Class) bool { return slices.Contains(blocking, class) }

// block draws whether rows of the database become blocked, and for how long. Only the model
// has such a switch.
func (d *database) block() {
	if d.world.options.Store != nil {
		return
	}
	for _, class := range blocking {
		if draw, ok := d.world.Happens(class, "database"); ok {
			list := d.rows(class, draw)
			d.world.Block(list...)
			d.world.After(draw.Between(100*time.Millisecond, 40*time.Second), func() {
				if !d.world.Healed() {
					d.world.unblock(list...)
				}
			})
		}
	}
}

// BlockAgain blocks rows by each class that has blocked some before, until Release.
func (w *World) BlockAgain() {
	for _, class := range blocking {
		if s := w.faults.sites[siteName{class, "database"}]; s != nil && s.hits > 0 {
			w.Block(w.database.rows(class, &Draw{s})...)
		}
	}
}

// rows draws the rows of open runs that a class blocks.
func (d *database) rows(class Class, draw *Draw) (list []memory.Blocked) {
	all := draw.Chance(0.5)
	runs, err := d.world.model.ListRuns(context.Background(), persistence.RunFilter{
		States: []lifecycle.State{lifecycle.Pending, lifecycle.Running}, Limit: persistence.PageMax,
	})
	if err != nil || len(runs.Rows) == 0 {
		return nil
	}
	one := runs.Rows[draw.Index(len(runs.Rows))]
	switch class { //nolint:exhaustive // the others block nothing
	case StoreTenant:
		list = append(list, memory.Blocked{Tenant: one.Tenant})
	case NoDefinition:
		list = append(list, memory.Blocked{Definition: one.Definition})
	default:
		for i := range runs.Rows {
			switch id := runs.Rows[i].ID; {
			case !all && id != one.ID && !draw.Chance(1.0/3):
			case class == StoreHeld:
				list = append(list, memory.Blocked{Locked: id})
			default:
				list = append(list, memory.Blocked{Unreadable: id})
			}
		}
	}
	return list
}

// Block blocks rows of the model, until the fault that chose them ends or Release.
func (w *World) Block(list ...memory.Blocked) {
	for _, b := range list {
		w.note("block", "database", fmt.Sprint(b))
		w.database.blocked = append(w.database.blocked, b)
		w.model.Block(b)
	}
}

// unblock ends Block. Of several blocks of the same rows the last one counts.
func (w *World) unblock(list ...memory.Blocked) {
	d := w.database
	for _, b := range list {
		i := slices.Index(d.blocked, b)
		if i < 0 {
			continue
		}
		d.blocked = slices.Delete(d.blocked, i, i+1)
		if !slices.Contains(d.blocked, b) {
			w.note("unblock", "database", fmt.Sprint(b))
			w.model.Unblock(b)
		}
	}
}

// Blocked lists what is blocked. Programs may have ended that by registering a definition.
func (w *World) Blocked() []memory.Blocked { return slices.Clone(w.database.blocked) }

// Release unblocks all rows.
func (w *World) Release() { w.unblock(w.Blocked()...) }
