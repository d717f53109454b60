package lifecycle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/workflow"
)

// Bounds of maps.
const (
	MapItemsMax  = 100_000 // items of a list
	MapWindowMax = 1000    // elements that are open at once
)

// Map is how far a step of kind [workflow.Map] has come that waits for its elements: dynamic
// tasks, one for each item of a list. They are made as the window moves. Items = Left + Open +
// Failed + those that have completed, here or in an earlier run.
type Map struct {
	Step    int32
	Name    string // of the step; its elements are named after it
	Window  int32  // so many elements are open at once
	Allowed int32  // so many may end without completing; more fail the map
	Items   int32  // of the list
	Left    int32  // items that have no element yet
	From    int32  // each item below this number has an element, or needs none: an earlier run completed it
	Open    int32  // elements that have not ended
	Failed  int32  // elements that have ended without completing: failed, or canceled

	// Next are numbers of items that have no element yet, ascending: the first ones, as many as
	// Window, or as Left if that is less.
	Next []int32
}

// failing reports whether too many elements did not complete: no others begin, and the map fails
// as soon as none is open.
func (m *Map) failing() bool { return m.Failed > m.Allowed }

// ElementName returns the name of an element of a map.
func ElementName(step string, item int32) string {
	return step + "[" + strconv.Itoa(int(item)) + "]"
}

// ElementOf returns which item of a map an element of this name is for; -1: it is not one.
func ElementOf(name string) int32 {
	open := strings.LastIndexByte(name, '[')
	if open < 0 || !strings.HasSuffix(name, "]") {
		return -1
	}
	item, err := strconv.ParseUint(name[open+1:len(name)-1], 10, 31)
	if err != nil {
		return -1
	}
	return int32(item)
}

// IsElement reports whether the task is an element of a map.
func (t *Task) IsElement() bool { return t.Dynamic != nil && t.Traits.Has(workflow.TraitMap) }

// Handled reports whether a failure of the task is handled: by all that come after it, by the map
// whose element it is, or by the machine that has started it.
func (t *Task) Handled() bool { return t.IsElement() || t.IsSpawned() || Handled(t.Children) }

// mapping is a map in a decision.
type mapping struct {
	Map

	changed bool // and is part of the decision's output
}

func mappings(maps []Map) (list []mapping) {
	for _, m := range maps {
		list = append(list, mapping{Map: m})
	}
	return list
}

// gatherMaps collects the maps that changed.
func (d *decider) gatherMaps() {
	for i := range d.maps {
		if m := &d.maps[i]; m.changed {
			d.out.Maps = append(d.out.Maps, m.Map)
		}
	}
	slices.SortFunc(d.out.Maps, func(a, b Map) int { return int(a.Step) - int(b.Step) })
	slices.Sort(d.out.MissingMaps)
	d.out.MissingMaps = slices.Compact(d.out.MissingMaps)
}

// spread lets the elements of a map begin: it has reported its list. From here on each end of a
// task of the run is decided on, because the fast path knows no elements.
func (d *decider) spread(t *Task, m Map) {
	d.run.Slow = true
	t.Flags |= FlagSpread
	t.Class, t.Error = "", "" // of an attempt that was tried again: from now on they say why the map fails
	d.move(t, Waiting, Event{Kind: EventWaiting, By: fmt.Sprintf("%d elements", m.Left)})
	m.Step = t.Step
	d.maps = append(d.maps, mapping{Map: m})
	d.fill(t.Step, len(d.maps)-1)
}

// mapOf returns where in d.maps the map of a step is. If it was not given to this decision, the
// decision asks for it, and is made again.
func (d *decider) mapOf(step int32) (at int, known bool) {
	at = slices.IndexFunc(d.maps, func(m mapping) bool { return m.Step == step })
	if at < 0 {
		d.out.MissingMaps = append(d.out.MissingMaps, step)
	}
	return at, at >= 0
}

// fill makes elements until as many are open as may be. If none is open then, it ends the wait of
// the map: it queues it, to gather the results, or fails it. Elements begin in the lane of new runs:
// a wide map does not stand before what continues.
func (d *decider) fill(step int32, at int) {
	m := &d.maps[at]
	m.changed = true
	lane := d.lane
	d.lane = LaneNew
	for m.Open < m.Window && m.Left > 0 && !m.failing() {
		if len(m.Next) == 0 {
			d.out.MissingMaps = append(d.out.MissingMaps, step)
			break
		}
		item := m.Next[0]
		m.Next, m.From = m.Next[1:], item+1
		m.Left--
		m.Open++
		owner, _ := d.at(step)
		d.run.Dynamic++
		d.enqueue(d.create(Task{
			Step: d.run.Steps + d.run.Dynamic, State: Pending, Traits: d.tasks[owner].Traits, StartTimeout: d.tasks[owner].StartTimeout,
			Dynamic: &Dynamic{Declared: step, Owner: step, Name: ElementName(m.Name, item)},
		}), Event{Kind: EventQueued})
	}
	d.lane = lane
	if m.Open > 0 || len(d.out.MissingMaps) > 0 { // missing: this decision is made again, with them
		return
	}
	owner, _ := d.at(step)
	t := &d.tasks[owner]
	if !m.failing() {
		d.lane = LaneContinuing
		d.enqueue(t, Event{Kind: EventQueued})
		d.lane = lane
		return
	}
	t.Attempt++ // which counts the attempts that ended with an error
	d.fail(t, Event{Kind: EventFailed, Attempt: t.Attempt, Class: t.Class, Text: t.Error}, NonRetryable)
}

// elementEnded tells a map that an element of it has ended. A map that was canceled keeps counting,
// and begins no others.
func (d *decider) elementEnded(element *Task) {
	owner := d.child(element.Dynamic.Owner)
	if owner == nil {
		return
	}
	at, known := d.mapOf(owner.Step)
	if !known {
		return
	}
	m := &d.maps[at]
	m.changed = true
	m.Open--
	if element.State != Completed {
		m.Failed++
	}
	if owner.State != Waiting {
		return
	}
	if element.State != Completed && m.Failed == m.Allowed+1 {
		d.startFailing(owner, m, element)
	}
	d.fill(owner.Step, at)
}

// startFailing notes why a map fails, because one element more did not complete than may, and
// cancels those of its elements that do not run. From here on it makes no others ([Map.failing]),
// and it fails when the last one that runs has ended.
func (d *decider) startFailing(owner *Task, m *mapping, element *Task) {
	item, why := ElementOf(element.Dynamic.Name), element.Error
	text := fmt.Sprintf("element %d of %d failed: %s", item, m.Items, why)
	if m.Allowed > 0 {
		text = fmt.Sprintf("%d of %d elements failed, where %d may: the last is element %d: %s", m.Failed, m.Items, m.Allowed, item, why)
	}
	owner.Class, owner.Error = ClassElementFailed, CleanText(text)
	d.note(owner.Step).changed = true
	step := owner.Step
	d.sweep(func(t *Task) {
		if t.IsElement() && t.Dynamic.Owner == step {
			d.stop(t, Canceled, Event{Kind: EventCanceled, By: byElement})
		}
	})
}

// stopper says what ends a task that would be executed again: its run, which fails, or its map,
// which does; "": nothing.
func (d *decider) stopper(t *Task) string {
	if d.run.Failing && stopsWith(t.Traits) {
		return byFailFast
	}
	if t.stopped() {
		return byMachine
	}
	if t.IsElement() {
		if owner := d.child(t.Dynamic.Owner); owner != nil && owner.State == Waiting && owner.Class == ClassElementFailed {
			return byElement
		}
	}
	return ""
}
