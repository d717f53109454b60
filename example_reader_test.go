package troupe_test

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe"
)

// A reader shows a run without its payloads, one payload as far as asked for, and the
// events since a position, which is a text that can be kept.
func ExampleReader() {
	ctx := context.Background()
	engine, err := troupe.NewInMemory(troupe.Config{})
	check(err)
	greet, err := troupe.Register(engine, troupe.Define("greet", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		return troupe.Step0(b, "write", func(_ context.Context, name string) (string, error) { return "Hello " + name, nil })
	}))
	check(err)
	check(engine.Start(ctx))
	defer func() { check(engine.Stop(ctx)) }()
	run, err := greet.RunNoWait(ctx, "Ada")
	check(err)
	_, err = run.Await(ctx)
	check(err)

	reader := engine.Reader() // in a tool without an engine: troupe.OpenReader(ctx, pool, "troupe")
	status, err := reader.Run(ctx, "", run.ID())
	check(err)
	fmt.Println(status.State, status.Steps[0].Name, status.Steps[0].OutputSize, "bytes")
	output, err := reader.Payload(ctx, "", run.ID(), "write", 6)
	check(err)
	fmt.Printf("%s… of %d bytes\n", output.Data, output.Size)
	events, seen, err := reader.Events(ctx, "", run.ID(), nil, 2)
	check(err)
	for _, event := range events {
		fmt.Println(event.Kind)
	}
	cursor := seen.String()
	seen, err = troupe.ParseEventPosition(cursor)
	check(err)
	events, _, err = reader.Events(ctx, "", run.ID(), seen, 0)
	check(err)
	fmt.Println(len(events), "more, the last is", events[len(events)-1].Kind)
	// Output:
	// completed write 11 bytes
	// "Hello… of 11 bytes
	// run_created
	// run_started
	// 4 more, the last is run_completed
}
