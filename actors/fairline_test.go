package actors

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
)

// fairLine is a queue of which a view takes tasks, in time that its claims take.
type fairLine struct {
	view      queueView
	rows      []place
	counters  map[turn]int64
	frontier  int64
	now       time.Time
	claims    int
	elsewhere int64 // blocks that others grant during each claim
	granted   map[string]int
}

type place struct {
	at   int64
	turn turn
	held bool
}

func newFairLine() *fairLine {
	return &fairLine{counters: map[turn]int64{}, granted: map[string]int{}, now: time.Unix(1000, 0)}
}

// enqueue gives a tenant places, as stores do.
func (l *fairLine) enqueue(tenant string, n int, goesOn bool) {
	t := turn{tenant, goesOn}
	lane := lifecycle.LaneNew
	if goesOn {
		lane = lifecycle.LaneContinuing
	}
	for range n {
		l.counters[t] = lifecycle.NextBlock(l.counters[t], l.frontier)
		at := lifecycle.FairID([]rune(tenant)[0], lane, l.counters[t])
		i, _ := slices.BinarySearchFunc(l.rows, at, func(p place, at int64) int { return cmp.Compare(p.at, at) })
		l.rows = slices.Insert(l.rows, i, place{at: at, turn: t})
	}
}

// hold lets what a tenant has be held, or no more.
func (l *fairLine) hold(tenant string, held bool) {
	for i := range l.rows {
		if l.rows[i].turn.tenant == tenant {
			l.rows[i].held = held
		}
	}
}

// waiting counts what a tenant has in the queue.
func (l *fairLine) waiting(tenant string) (n int) {
	for _, p := range l.rows {
		if p.turn.tenant == tenant {
			n++
		}
	}
	return n
}

// fill claims until no slot is free, or nothing is woken.
func (l *fairLine) fill(free int) {
	l.view.woken = true
	for vain := 0; free > 0 && l.view.woken; vain++ {
		if vain > 100 {
			panic(fmt.Sprintf("%+v", l.view))
		}
		l.claims++
		l.now = l.now.Add(2 * time.Millisecond)
		l.view.woken = false
		request := persistence.ClaimRequest{Limit: l.view.arrears.share(free), After: l.view.after(l.now)}
		open := &openClaim{request: request, full: request.After == 0, asked: l.now}
		found := l.claim(request)
		l.view.learn(open, found, l.now)
		free -= len(found.Grants)
	}
}

func (l *fairLine) claim(request persistence.ClaimRequest) *persistence.Claimed {
	l.frontier += l.elsewhere
	found := &persistence.Claimed{Frontier: l.frontier}
	l.rows = slices.DeleteFunc(l.rows, func(p place) bool {
		switch {
		case p.at < request.After || len(found.Grants) == request.Limit || request.After > 0 && found.Held >= 1000:
			return false
		case p.held:
			found.Held++
			return false
		case found.Lowest == 0:
			found.Lowest = p.at
		}
		grant := persistence.Grant{Tenant: p.turn.tenant}
		if p.turn.goesOn {
			grant.Parents = make([]persistence.Outcome, 1)
		}
		found.Grants = append(found.Grants, grant)
		l.granted[p.turn.tenant]++
		_, _, block := lifecycle.SplitFairID(p.at)
		l.frontier = max(l.frontier, block)
		return true
	})
	found.Scanned = len(found.Grants)
	return found
}

// pass lets others work beside a tenant that is held, so that it is late.
func (l *fairLine) pass(blocks int) {
	for range blocks / 50 {
		l.enqueue("x", 50, false)
		for l.waiting("x") > 0 {
			l.fill(50)
			l.now = l.now.Add(wholeEvery)
		}
	}
}
