package troupe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe"
)

var Ingestion = troupe.Define("ingestion", func(b *troupe.Builder[string]) troupe.StepRef[string] {
	files := troupe.Step0(b, "list", list) // returns []string
	lines := troupe.MapSettled(b, "files", files, count, troupe.MaxConcurrency(20), troupe.ToleratedFailures(0.05))
	return troupe.Step1(b, "sum", sum, lines)
})

func list(_ context.Context, folder string) ([]string, error) {
	files := []string{folder + "/notes.txt"}
	for i := range 19 {
		files = append(files, fmt.Sprintf("%s/%d.csv", folder, i))
	}
	return files, nil
}

// count is executed for each file.
func count(_ context.Context, _, path string) (int, error) {
	if !strings.HasSuffix(path, ".csv") {
		return 0, errors.New(path + " has no lines")
	}
	return 10, nil
}

func sum(_ context.Context, _ string, files []troupe.ElementOutcome[int]) (string, error) {
	total, failed := 0, 0
	for _, file := range files { // in the order of the list
		lines, err := file.Value()
		if err != nil {
			failed++
		}
		total += lines
	}
	return fmt.Sprintf("%d lines; %d of %d files failed", total, failed, len(files)), nil
}

// A function is executed for each item of a list that a step returns, and some may fail.
func ExampleMapSettled() {
	ctx := context.Background()
	engine, err := troupe.NewInMemory(troupe.Config{})
	check(err)
	ingestion, err := troupe.Register(engine, Ingestion)
	check(err)
	check(engine.Start(ctx))
	defer func() { check(engine.Stop(ctx)) }()

	result, err := ingestion.Run(ctx, "in")
	check(err)
	fmt.Println(result)
	// Output: 190 lines; 1 of 20 files failed
}

// A map whose elements must all complete has a list of their results.
func ExampleMap() {
	squares := troupe.Define("squares", func(b *troupe.Builder[int]) troupe.StepRef[[]int] {
		numbers := troupe.Step0(b, "numbers", func(_ context.Context, n int) ([]int, error) {
			list := make([]int, n)
			for i := range list {
				list[i] = i
			}
			return list, nil
		})
		return troupe.Map(b, "squares", numbers, func(_ context.Context, _, n int) (int, error) { return n * n, nil }, troupe.Retry{Attempts: 3})
	})
	ctx := context.Background()
	engine, err := troupe.NewInMemory(troupe.Config{})
	check(err)
	handle, err := troupe.Register(engine, squares)
	check(err)
	check(engine.Start(ctx))
	defer func() { check(engine.Stop(ctx)) }()

	result, err := handle.Run(ctx, 5)
	check(err)
	fmt.Println(result)
	// Output: [0 1 4 9 16]
}
