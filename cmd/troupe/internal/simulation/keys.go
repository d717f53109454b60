package simulation

import (
	"maps"
	"slices"
	"strings"
)

func sortedKeys(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }

func splitClasses(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}
