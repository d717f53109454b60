package simtest

import (
	"slices"
	"strings"
)

// triesMost bounds how often a failed simulation is run again to shrink it.
const triesMost = 120

// shrinker looks for fewer faults that break the same promise.
type shrinker struct {
	batch *batch
	best  *outcome
	left  int
}

// shrink leaves out whole classes of faults, then parts of what is left, ever
// smaller ones (Zeller's ddmin), as long as the same promise is broken.
func (b *batch) shrink(failed *outcome) *outcome {
	s := &shrinker{batch: b, best: failed, left: triesMost}
	plain := failed.setting
	plain.Plain = true
	s.try(plain)
	if !s.only(names(s.best)) {
		return s.best
	}
	if s.best.setting.Twice != 0 || s.best.setting.CrashAt != 0 {
		bare := s.best.setting
		bare.Twice, bare.CrashAt = 0, 0
		s.try(bare)
	}
	for _, class := range AllFaults() {
		s.only(slices.DeleteFunc(slices.Clone(s.best.setting.Only), func(name string) bool {
			return strings.HasPrefix(name, string(class)+"@")
		}))
	}
	for parts := 2; len(s.best.setting.Only) > 0 && s.left > 0; {
		only := s.best.setting.Only
		parts = min(parts, len(only))
		shorter := false
		for i := 0; i < parts && !shorter; i++ {
			low, high := i*len(only)/parts, (i+1)*len(only)/parts
			shorter = s.only(slices.Concat(only[:low], only[high:]))
		}
		switch {
		case shorter:
			parts = max(parts-1, 2)
		case parts == len(only):
			return s.best
		default:
			parts *= 2
		}
	}
	return s.best
}

// only tries to do with these faults.
func (s *shrinker) only(faults []string) bool {
	set := s.best.setting
	if set.Only != nil && len(faults) == len(set.Only) {
		return false
	}
	set.Only = append([]string{}, faults...)
	return s.try(set)
}

// try keeps a setting that breaks the same promise.
func (s *shrinker) try(set setting) bool {
	if s.left--; s.left < 0 {
		return false
	}
	o := s.batch.play(set)
	if o.violation == nil || o.violation.Promise != s.best.violation.Promise {
		return false
	}
	s.best = o
	return true
}

// names lists the faults that happened.
func names(o *outcome) []string {
	list := make([]string, len(o.faults))
	for i := range o.faults {
		list[i] = o.faults[i].Name()
	}
	return list
}
