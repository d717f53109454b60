package troupe_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe"
)

// A step that failed for good is found by what it is of, and its run continues
// once the cause is mended: what completed before is not executed again.
func ExampleDeadLetters_RequeueAll() {
	ctx := context.Background()
	carrier := errors.New("carrier is closed")
	engine, err := troupe.NewInMemory(troupe.Config{})
	check(err)
	parcels, err := troupe.Register(engine, troupe.Define("parcels", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		packed := troupe.Step0(b, "pack", func(_ context.Context, parcel string) (string, error) {
			fmt.Println("packing", parcel)
			return parcel + " packed", nil
		})
		return troupe.Step1(b, "deliver", func(_ context.Context, _, packed string) (string, error) {
			return packed + ", handed over", carrier
		}, packed)
	}))
	check(err)
	check(engine.Start(ctx))
	defer func() { check(engine.Stop(ctx)) }()

	_, err = parcels.Run(ctx, "p-1")
	fmt.Println(errors.Is(err, troupe.ErrRunFailed))

	dead := engine.DeadLetters()
	page, err := dead.List(ctx, troupe.DeadLetterFilter{Workflow: "parcels"})
	check(err)
	fmt.Printf("%s: %v: %s\n", page.Letters[0].Step, page.Letters[0].Reason, page.Letters[0].Error)

	carrier = nil // mended
	report, err := dead.RequeueAll(ctx, troupe.DeadLetterFilter{Workflow: "parcels"}, troupe.RequeueOptions{})
	check(err)
	result, err := parcels.Get("", report.Runs[0]).Await(ctx)
	check(err)
	fmt.Println(result)
	// Output:
	// packing p-1
	// true
	// deliver: attempts_exhausted: carrier is closed
	// p-1 packed, handed over
}
