package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgsql"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/registry"
	"github.com/troupe-dev/troupe/workflow"
)

func (s *Store) knowNames(ctx context.Context, triggers []persistence.Trigger) (registry.Names, error) {
	known := registry.Names{Queues: map[string]int16{}}
	hashes := map[workflow.Hash]bool{}
	var list []workflow.Hash
	for i := range triggers {
		t := &triggers[i]
		if !hashes[t.Definition] {
			hashes[t.Definition] = true
			list = append(list, t.Definition)
		}
		if _, ok := known.Queues[t.Queue]; !ok && refuseTrigger(*t) == nil {
			number, err := s.Queue(ctx, t.Queue)
			if err != nil {
				return known, err
			}
			known.Queues[t.Queue] = number
		}
	}
	var err error
	if known.Definitions, err = s.Definitions(ctx, list); err != nil {
		return known, err
	}
	for i := range triggers {
		t := &triggers[i]
		number, asked := known.Queues[t.Queue]
		noDefinition, noQueue := known.Definitions[t.Definition] == nil, asked && number == 0
		if !noDefinition && !noQueue {
			continue
		}
		if definition, queue := s.Catalog.Owns(t); definition && noDefinition || queue && noQueue {
			return known, pgerr.ErrRegistryLost
		}
	}
	return known, nil
}

// keyName is an idempotency key with its scope.
type keyName struct{ tenant, workflow, key string }

func keyOf(t *persistence.Trigger) keyName { return keyName{t.Tenant, t.Workflow, t.Key} }

// keyHolder is the run that a key names.
type keyHolder struct {
	run  workflow.RunID
	hash [32]byte
}

// found is what the database says about the triggers of a batch.
type found struct {
	runs    map[workflow.RunID]bool // exist
	busy    map[keyName]bool        // held by another transaction
	keys    map[keyName]keyHolder   // exist
	tenants map[string]int32        // have a group
	full    map[string]bool         // get none
	at      place                   // where a user's transaction leads to
}

// queueRuns adds the question which runs exist. A serializable transaction is asked about
// those in history only, unless always.
func (f *found) queueRuns(b *pgsql.Batch, ids pgsql.UUIDs, always bool) {
	b.Add("find_runs", pgsql.Named{"runs": ids, "always": always}).Query(func(rows pgx.Rows) error {
		var id [16]byte
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			f.runs[id] = true
			return nil
		})
		return err
	})
}

// queueKeys adds the question which keys exist. A serializable transaction is not asked,
// unless always.
func (f *found) queueKeys(b *pgsql.Batch, keys []keyName, always bool) {
	var tenants, workflows, texts []string
	for _, k := range keys {
		tenants, workflows, texts = append(tenants, k.tenant), append(workflows, k.workflow), append(texts, k.key)
	}
	b.Add("find_keys", pgsql.Named{
		"tenants": tenants, "workflows": workflows, "keys": texts, "always": always,
	}).Query(func(rows pgx.Rows) error {
		var ord int
		var id [16]byte
		var hash []byte
		_, err := pgx.ForEachRow(rows, []any{&ord, &id, &hash}, func() error {
			holder := keyHolder{run: id}
			copy(holder.hash[:], hash)
			f.keys[keys[ord-1]] = holder
			return nil
		})
		return err
	})
}

// draft is what a batch is about to store: later triggers of it see the
// earlier ones.
type draft struct {
	runs map[workflow.RunID]bool
	keys map[keyName]keyHolder
}

func newDraft() draft {
	return draft{runs: map[workflow.RunID]bool{}, keys: map[keyName]keyHolder{}}
}

func (d draft) add(t *persistence.Trigger) {
	d.runs[t.Run] = true
	if t.Key != "" {
		d.keys[keyOf(t)] = keyHolder{t.Run, t.InputHash}
	}
}

// stored reports whether a result means that the run exists.
func stored(result persistence.TriggerResult) bool {
	return result == persistence.Triggered || result == persistence.Existing
}

// examine says what becomes of a trigger.
func (f *found) examine(t *persistence.Trigger, known registry.Names, before, unit draft) persistence.TriggerAnswer {
	if f.runs[t.Run] || before.runs[t.Run] || unit.runs[t.Run] {
		return persistence.TriggerAnswer{Result: persistence.Triggered, Run: t.Run}
	}
	if err := refuseTrigger(*t); err != nil {
		return persistence.TriggerAnswer{Result: persistence.TriggerBadRow, Err: err}
	}
	if known.Definitions[t.Definition] == nil {
		return persistence.TriggerAnswer{Result: persistence.UnknownWorkflow}
	}
	if known.Queues[t.Queue] == 0 {
		return persistence.TriggerAnswer{Result: persistence.UnknownQueue}
	}
	if t.Key != "" {
		k := keyOf(t)
		if f.busy[k] {
			return persistence.TriggerAnswer{Result: persistence.KeyBusy}
		}
		for _, keys := range []map[keyName]keyHolder{f.keys, before.keys, unit.keys} {
			if holder, ok := keys[k]; ok {
				return answerKey(t, holder)
			}
		}
	}
	if f.full[t.Tenant] {
		return persistence.TriggerAnswer{Result: persistence.TenantsFull, Err: persistence.ErrTenantsFull}
	}
	return persistence.TriggerAnswer{Result: persistence.Triggered, Run: t.Run}
}

func answerKey(t *persistence.Trigger, holder keyHolder) persistence.TriggerAnswer {
	switch {
	case holder.run == t.Run:
		return persistence.TriggerAnswer{Result: persistence.Triggered, Run: t.Run}
	case holder.hash == t.InputHash:
		return persistence.TriggerAnswer{Result: persistence.Existing, Run: holder.run}
	}
	return persistence.TriggerAnswer{Result: persistence.KeyConflict, Run: holder.run}
}

// examineUnits answers every trigger and returns those to store, in order.
func (f *found) examineUnits(
	triggers []persistence.Trigger, known registry.Names, parts [][]int, answers []persistence.TriggerAnswer,
) []int {
	before := newDraft()
	var store []int
	for _, part := range parts {
		unit := newDraft()
		var fresh []int
		refused := false
		for _, i := range part {
			t := &triggers[i]
			answers[i] = f.examine(t, known, before, unit)
			refused = refused || !stored(answers[i].Result)
			if answers[i].Result == persistence.Triggered && !f.runs[t.Run] && !before.runs[t.Run] && !unit.runs[t.Run] {
				unit.add(t)
				fresh = append(fresh, i)
			}
		}
		if refused {
			for _, i := range part {
				if stored(answers[i].Result) {
					answers[i] = persistence.TriggerAnswer{Result: persistence.GroupRefused}
				}
			}
			continue
		}
		for _, i := range fresh {
			before.add(&triggers[i])
		}
		store = append(store, fresh...)
	}
	return store
}

// yearMax is the last year that is stored: PostgreSQL ends in 294276.
const yearMax = 200_000

// refuseTrigger returns why the database would refuse a value of a trigger, as
// far as that can be told beforehand.
func refuseTrigger(t persistence.Trigger) error {
	texts := []string{t.Workflow, t.Tenant, t.Key, t.Queue, t.TraceContext, t.Origin}
	for name, value := range t.Labels {
		texts = append(texts, name, value)
	}
	for _, text := range texts {
		if !pgsql.Storable(text) {
			return fmt.Errorf("%w: text is not UTF-8 or holds a NUL byte", persistence.ErrBadRow)
		}
	}
	return refuseInstants(t.At, t.Edges)
}

func refuseInstants(at time.Time, edges []persistence.EdgeResult) error {
	far := func(t time.Time) bool { return !t.IsZero() && (t.Year() < 0 || t.Year() > yearMax) }
	if far(at) || slices.ContainsFunc(edges, func(e persistence.EdgeResult) bool { return far(e.WakeAt) }) {
		return fmt.Errorf("%w: instant out of range", persistence.ErrBadRow)
	}
	return nil
}
