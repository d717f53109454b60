package clock

import (
	"container/heap"
	"time"
)

// Agenda is functions that wait for their instants, in the order of these and, at
// equal ones, in that of their adding. The zero Agenda is empty. It is not safe for
// concurrent use.
type Agenda struct {
	waiting entries
	added   uint64
}

// Entry is a function on an agenda.
type Entry struct {
	At  time.Time
	Run func()

	order uint64
	index int // in the heap; -1 once it has left
}

// Add puts a function on the agenda.
func (a *Agenda) Add(at time.Time, run func()) *Entry {
	a.added++
	e := &Entry{At: at, Run: run, order: a.added}
	heap.Push(&a.waiting, e)
	return e
}

// Remove takes an entry off; one that has left stays what it is.
func (a *Agenda) Remove(e *Entry) {
	if e.index >= 0 {
		heap.Remove(&a.waiting, e.index)
	}
}

// First returns the entry that is due first; nil: there is none.
func (a *Agenda) First() *Entry {
	if len(a.waiting) == 0 {
		return nil
	}
	return a.waiting[0]
}

// Take takes the first entry off, if its instant has come by now; else it returns nil.
func (a *Agenda) Take(now time.Time) *Entry {
	first := a.First()
	if first == nil || first.At.After(now) {
		return nil
	}
	heap.Pop(&a.waiting)
	return first
}

// entries implements heap.Interface by instant and order.
type entries []*Entry

func (h entries) Len() int { return len(h) }

func (h entries) Less(i, j int) bool {
	if h[i].At.Equal(h[j].At) {
		return h[i].order < h[j].order
	}
	return h[i].At.Before(h[j].At)
}

func (h entries) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *entries) Push(x any) {
	e := x.(*Entry) //nolint:errcheck // only Add pushes
	e.index = len(*h)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *entries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.index = -1
	return e
}
