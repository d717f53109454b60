package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// ErrTxDone means that a transaction was committed or rolled back before.
var ErrTxDone = fmt.Errorf("%w: it has ended", persistence.ErrTxRefused)

// errForeignTx is the answer to a transaction of another store.
var errForeignTx = fmt.Errorf("%w: the store in memory takes transactions of its own only: trigger without one, or use an engine on PostgreSQL",
	persistence.ErrTxRefused)

// Tx stands for a transaction of the user: what is triggered in it is stored
// when it commits. It is not safe for concurrent use.
type Tx struct {
	store    *Store
	drafted  draft
	triggers []drafted
	signals  []draftedSignal
	done     bool
}

type drafted struct {
	number  int64
	at      time.Time
	trigger persistence.Trigger
}

// Begin opens a transaction for TriggerInTx. The caller ends it.
func (s *Store) Begin() *Tx {
	return &Tx{store: s, drafted: draft{
		keys: map[key]persistence.Trigger{}, runs: map[workflow.RunID]bool{}, tenants: map[string]bool{},
	}}
}

// Commit stores what was triggered.
func (tx *Tx) Commit() error {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	return tx.commit()
}

// Rollback forgets it. After Commit it returns ErrTxDone and does nothing.
func (tx *Tx) Rollback() error {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	return tx.end()
}

func (tx *Tx) commit() error {
	if err := tx.end(); err != nil {
		return err
	}
	for _, d := range tx.triggers {
		tx.store.submitted(d.number, d.trigger, d.at)
	}
	for _, d := range tx.signals {
		tx.store.signaled(d)
	}
	return nil
}

// end releases the keys.
func (tx *Tx) end() error {
	if tx.done {
		return ErrTxDone
	}
	tx.done = true
	for k := range tx.drafted.keys {
		delete(tx.store.keyLocks, k)
	}
	return nil
}

// own returns a transaction of this store.
func (s *Store) own(tx any) (*Tx, error) {
	own, ok := tx.(*Tx)
	if !ok || own.store != s {
		return nil, errForeignTx
	}
	return own, nil
}

// TriggerInTx implements persistence.Intake. tx is a *Tx of this store.
func (s *Store) TriggerInTx(_ context.Context, tx any, trigger persistence.Trigger) (persistence.TriggerAnswer, error) {
	own, err := s.own(tx)
	if err != nil {
		return persistence.TriggerAnswer{}, err
	}
	b := s.begin()
	defer s.mu.Unlock()
	if own.done {
		return persistence.TriggerAnswer{}, ErrTxDone
	}
	answer := s.examine(trigger, own.drafted, own)
	if answer.Result != persistence.Triggered || s.runs[trigger.Run] != nil || own.drafted.runs[trigger.Run] {
		return answer, nil
	}
	if err := s.refuse(trigger.Input); err != nil {
		return persistence.TriggerAnswer{Result: persistence.TriggerBadRow, Err: err}, nil
	}
	own.drafted.add(trigger)
	if trigger.Key != "" {
		s.keyLocks[keyOf(trigger)] = own
	}
	s.submissions++
	own.triggers = append(own.triggers, drafted{s.submissions, b.now, trigger})
	return answer, nil
}
