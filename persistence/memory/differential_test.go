package memory_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/storetest"
	"github.com/troupe-dev/troupe/workflow"
)

func openFresh(*testing.T) storetest.Harness { return newClock().harness() }

// TestDifferential compares the model with itself: it is deterministic, and
// the random operations reach everything.
func TestDifferential(t *testing.T) {
	t.Parallel()
	storetest.Differential{Model: openFresh, Product: openFresh, Worlds: 60, Operations: 200, Least: 4}.Run(t)
}

// planted is a store with a bug.
type planted struct {
	persistence.Store
	trigger func(*persistence.Trigger)
	claim   func(*persistence.ClaimRequest)
	record  func(*persistence.Record)
	cancel  func(*persistence.Cancel)
	renewal func(*persistence.Renewal)
	filter  func(*persistence.RunFilter)
	signal  func(*persistence.Signal)
	maxLost int
	timers  int
	expire  int
	blind   bool // its leader does not look at steps that wait for child runs
}

func changed[T any](value T, change func(*T)) T {
	if change != nil {
		change(&value)
	}
	return value
}

func (p planted) TriggerRuns(ctx context.Context, batch []persistence.Trigger, take persistence.GrantRequest) (persistence.Triggers, error) {
	for i := range batch {
		batch[i] = changed(batch[i], p.trigger)
	}
	return p.Store.TriggerRuns(ctx, batch, take)
}

func (p planted) ClaimTasks(ctx context.Context, request persistence.ClaimRequest) (persistence.Claimed, error) {
	return p.Store.ClaimTasks(ctx, changed(request, p.claim))
}

func (p planted) RecordTransitions(ctx context.Context, record persistence.Record) (persistence.Recorded, error) {
	return p.Store.RecordTransitions(ctx, changed(record, p.record))
}

func (p planted) CancelRun(ctx context.Context, cancel persistence.Cancel) (persistence.Canceled, error) {
	return p.Store.CancelRun(ctx, changed(cancel, p.cancel))
}

func (p planted) RenewPod(ctx context.Context, renewal persistence.Renewal) (persistence.Renewed, error) {
	return p.Store.RenewPod(ctx, changed(renewal, p.renewal))
}

func (p planted) ListRuns(ctx context.Context, filter persistence.RunFilter) (persistence.RunList, error) {
	return p.Store.ListRuns(ctx, changed(filter, p.filter))
}

func (p planted) SendSignals(ctx context.Context, batch []persistence.Signal) (persistence.Signals, error) {
	batch = slices.Clone(batch)
	for i := range batch {
		batch[i] = changed(batch[i], p.signal)
	}
	return p.Store.SendSignals(ctx, batch)
}

func (p planted) FireTimers(ctx context.Context, epoch int64, limit int) (persistence.Fired, error) {
	if p.timers > 0 {
		limit = p.timers
	}
	return p.Store.FireTimers(ctx, epoch, limit)
}

func (p planted) ExpirePods(ctx context.Context, epoch int64, maxLost, limit int, by time.Time) (persistence.Expired, error) {
	if p.expire > 0 {
		limit = p.expire
	}
	return p.Store.ExpirePods(ctx, epoch, maxLost+p.maxLost, limit, by)
}

func (p planted) WakeParents(ctx context.Context, epoch int64, after workflow.TaskID, limit int) (persistence.Woken, error) {
	out, err := p.Store.WakeParents(ctx, epoch, after, limit)
	if p.blind {
		out = persistence.Woken{}
	}
	return out, err
}

// eachChild changes the child runs of a record.
func eachChild(change func(*persistence.Child)) func(*persistence.Record) {
	return eachTransition(func(t *persistence.Transition) {
		if t.Child != nil {
			child := *t.Child
			change(&child)
			t.Child = &child
		}
	})
}

// eachActivation changes the activations of a record.
func eachActivation(change func(*persistence.Activation)) func(*persistence.Record) {
	return eachTransition(func(t *persistence.Transition) {
		if t.Activation != nil {
			a := *t.Activation
			change(&a)
			t.Activation = &a
		}
	})
}

// eachStart changes what the activations of a record start.
func eachStart(change func(*persistence.Spawn)) func(*persistence.Record) {
	return eachActivation(func(a *persistence.Activation) {
		a.Start = slices.Clone(a.Start)
		for i := range a.Start {
			change(&a.Start[i])
		}
	})
}

// eachMap changes the maps of a record.
func eachMap(change func(*persistence.Map)) func(*persistence.Record) {
	return eachTransition(func(t *persistence.Transition) {
		if t.Map != nil {
			m := *t.Map
			change(&m)
			t.Map = &m
		}
	})
}

// eachTransition changes the transitions of a record.
func eachTransition(change func(*persistence.Transition)) func(*persistence.Record) {
	return func(r *persistence.Record) {
		for i := range r.Transitions {
			change(&r.Transitions[i])
		}
	}
}

func bugs() map[string]planted {
	return map[string]planted{
		"keys are ignored":             {trigger: func(t *persistence.Trigger) { t.Key = "" }},
		"groups are ignored":           {trigger: func(t *persistence.Trigger) { t.Group = 0 }},
		"later is now":                 {trigger: func(t *persistence.Trigger) { t.At = t.At.AddDate(-1, 0, 0) }},
		"input conditions are ignored": {trigger: func(t *persistence.Trigger) { t.Edges = nil }},
		"the queue is ignored":         {trigger: func(t *persistence.Trigger) { t.Queue = "" }},
		"suspects are claimed freely":  {claim: func(c *persistence.ClaimRequest) { c.Suspects = true }},
		"a claim is always new":        {claim: func(c *persistence.ClaimRequest) { c.Claim[0]++ }},
		"a claim begins at the start":  {claim: func(c *persistence.ClaimRequest) { c.After = 0 }},
		"the tenant limit is ignored":  {claim: func(c *persistence.ClaimRequest) { c.TenantLimit = 0 }},
		"claims are small":             {claim: func(c *persistence.ClaimRequest) { c.Limit = min(c.Limit, 3) }},
		"conditions are ignored":       {record: eachTransition(func(t *persistence.Transition) { t.Edges = nil })},
		"a loss is a release": {record: eachTransition(func(t *persistence.Transition) {
			if t.Report == lifecycle.Lost {
				t.Report = lifecycle.Released
			}
		})},
		"progress is dropped":              {record: eachTransition(func(t *persistence.Transition) { t.Progress = nil })},
		"a timeout is an error":            {record: eachTransition(func(t *persistence.Transition) { t.TimedOut = "" })},
		"nothing is granted inline":        {record: func(r *persistence.Record) { r.Limit = 0 }},
		"dynamic tasks are not made":       {record: eachTransition(func(t *persistence.Transition) { t.Make = nil })},
		"child runs have their own keys":   {record: eachChild(func(c *persistence.Child) { c.KeyRun = c.Run })},
		"child runs have no conditions":    {record: eachChild(func(c *persistence.Child) { c.Edges = nil })},
		"child runs have no input":         {record: eachChild(func(c *persistence.Child) { c.Input = nil })},
		"any child run is begun":           {record: eachChild(func(c *persistence.Child) { c.Workflow = "single" })},
		"windows are wider":                {record: eachMap(func(m *persistence.Map) { m.Window++ })},
		"a failure more is tolerated":      {record: eachMap(func(m *persistence.Map) { m.Allowed = min(m.Allowed+1, int32(len(m.Items))) })},
		"the last items are left out":      {record: eachMap(func(m *persistence.Map) { m.Items = m.Items[:max(1, len(m.Items)-1)] })},
		"items are all the first":          {record: eachMap(func(m *persistence.Map) { m.Items = slices.Repeat(m.Items[:min(1, len(m.Items))], len(m.Items)) })},
		"cancels of machines are dropped":  {record: eachActivation(func(a *persistence.Activation) { a.Cancel = nil })},
		"what machines start has no input": {record: eachStart(func(s *persistence.Spawn) { s.Input = nil })},
		"timers of machines fire at once":  {record: eachStart(func(s *persistence.Spawn) { s.WakeAt = s.WakeAt.AddDate(-1, 0, 0) })},
		"states of machines are dropped":   {record: eachActivation(func(a *persistence.Activation) { a.Version, a.State = 0, nil })},
		"machines hear of entries again":   {record: eachActivation(func(a *persistence.Activation) { a.Taken = max(a.Taken-1, 0) })},
		"refused signals are not told":     {record: eachActivation(func(a *persistence.Activation) { a.Refused = nil })},
		"all runs are children":            {filter: func(f *persistence.RunFilter) { f.Parent = [16]byte{} }},
		"the leader wakes no parents":      {blind: true},
		"the cancel reason is dropped":     {cancel: func(c *persistence.Cancel) { c.Reason = "" }},
		"any tenant may cancel":            {cancel: func(c *persistence.Cancel) { c.Tenant = "" }},
		"heartbeats are dropped":           {renewal: func(r *persistence.Renewal) { r.Held = nil }},
		"labels are not looked at":         {filter: func(f *persistence.RunFilter) { f.Labels = nil }},
		"any tenant may signal":            {signal: func(s *persistence.Signal) { s.Tenant = "" }},
		"payloads of signals are dropped":  {signal: func(s *persistence.Signal) { s.Payload = nil }},
		"pages overlap":                    {filter: func(f *persistence.RunFilter) { f.Before = [16]byte{} }},
		"one loss more is allowed":         {maxLost: 1},
		"timers fire one at a time":        {timers: 1},
		"dead pods are emptied one by one": {expire: 1},
	}
}

// TestDifferentialFindsPlantedBugs: each bug is a store that differs from the
// model in one thing, and is found within a few worlds.
func TestDifferentialFindsPlantedBugs(t *testing.T) {
	t.Parallel()
	for name, bug := range bugs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := storetest.Differential{Model: openFresh, Operations: 200, Product: func(t *testing.T) storetest.Harness {
				t.Helper()
				h := openFresh(t)
				bug.Store = h.Store
				h.Store = bug
				return h
			}}
			for seed := range uint64(40) {
				if _, err := d.World(t, seed+1); err != nil {
					require.ErrorContains(t, err, "differ")
					require.ErrorContains(t, err, "the last operations were")
					return
				}
			}
			t.Error("not found in 40 worlds")
		})
	}
}
