package workflow

import (
	"fmt"
	"testing"
	"time"
)

// definitions of the benchmarks: what people write, and something wide.
func benchDefinitions() map[string]*Definition {
	diamond := &Definition{
		Name: "diamond", InputType: "I", Policy: FailFast, Output: 3,
		Steps: []Step{
			{Name: "a", Kind: Func, Type: "A"},
			{Name: "b", Kind: Func, Type: "B", Parents: []Edge{{0, Plain}}},
			{Name: "c", Kind: Func, Type: "C", Parents: []Edge{{0, Plain}}},
			{Name: "d", Kind: Func, Type: "D", Parents: []Edge{{1, Plain}, {2, Plain}}},
		},
	}
	wide := &Definition{Name: "wide", InputType: "I", Policy: FailFast, Output: 101, Steps: []Step{{Name: "root", Kind: Func, Type: "A"}}}
	join := Step{Name: "join", Kind: Func, Type: "J"}
	for i := 1; i <= 100; i++ {
		wide.Steps = append(wide.Steps, Step{Name: fmt.Sprintf("part-%d", i), Kind: Func, Type: "P", Parents: []Edge{{0, Plain}}})
		join.Parents = append(join.Parents, Edge{i, Plain})
	}
	wide.Steps = append(wide.Steps, join)
	return map[string]*Definition{"diamond": diamond, "rich": rich(), "wide": wide}
}

var benchNames = [...]string{"diamond", "rich", "wide"}

func BenchmarkValidate(b *testing.B) {
	for _, name := range benchNames {
		d := benchDefinitions()[name]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Validate(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNewGraph validates, compiles and hashes.
func BenchmarkNewGraph(b *testing.B) {
	for _, name := range benchNames {
		d := benchDefinitions()[name]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NewGraph(d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHash(b *testing.B) {
	for _, name := range benchNames {
		g, err := NewGraph(benchDefinitions()[name])
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if g.hash() != g.Hash {
					b.Fatal("the hash has changed")
				}
			}
		})
	}
}

func BenchmarkRunID(b *testing.B) {
	id := NewRunID(time.UnixMilli(1_700_000_000_000), [10]byte{1, 2, 3})
	text := id.String()
	b.Run("String", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = id.String()
		}
	})
	b.Run("Parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ParseRunID(text); err != nil {
				b.Fatal(err)
			}
		}
	})
}
