package troupe_test

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe"
)

// Bundle is two orders that are shipped together.
type Bundle struct{ First, Second Order }

var Bundles = troupe.Define("bundles", func(b *troupe.Builder[Bundle]) troupe.StepRef[string] {
	first := troupe.Step0(b, "first", func(_ context.Context, of Bundle) (Order, error) { return of.First, nil })
	second := troupe.Step0(b, "second", func(_ context.Context, of Bundle) (Order, error) { return of.Second, nil })
	one := troupe.Child(b, "order-first", Orders, first)
	two := troupe.Child(b, "order-second", Orders, second)
	return troupe.Step2(b, "join", func(_ context.Context, _ Bundle, one, two string) (string, error) { return one + "; " + two, nil }, one, two)
})

// Two steps run the workflow of the quick start, at the same time and without a slot.
func ExampleChild() {
	ctx := context.Background()
	engine, err := troupe.NewInMemory(troupe.Config{})
	check(err)
	_, err = troupe.Register(engine, Orders)
	check(err)
	bundles, err := troupe.Register(engine, Bundles)
	check(err)
	check(engine.Start(ctx))
	defer func() { check(engine.Stop(ctx)) }()

	result, err := bundles.Run(ctx, Bundle{Order{ID: "o-1"}, Order{ID: "o-2"}})
	check(err)
	fmt.Println(result)
	// Output: paid o-1, shipped; paid o-2, shipped
}
