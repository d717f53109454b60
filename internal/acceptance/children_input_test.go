package acceptance

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// A workflow whose steps begin runs of others starts once these are registered, too.
func TestB42WorkflowsOfChildRunsAreRegisteredToo(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &diary{}
		engine, err := troupe.NewInMemory(calm())
		require.NoError(t, err)
		handle, err := troupe.Register(engine, shipping(bill(d)))
		require.NoError(t, err)
		problem := func(engine *troupe.Engine, text, remedy string) {
			t.Helper()
			err := engine.Start(t.Context())
			var broken *troupe.DefinitionError
			require.ErrorAs(t, err, &broken)
			require.Equal(t, "shipping", broken.Workflow)
			require.Len(t, broken.Problems, 1)
			p := broken.Problems[0]
			require.Equal(t, []string{"bill", "workflow", text, remedy}, []string{p.Step, p.Field, p.Text, p.Remedy})
		}
		problem(engine, `workflow "bill" is not registered with this engine`, "register it, too")
		_, err = troupe.Register(engine, bill(d))
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
		defer func() { require.NoError(t, engine.Stop(context.Background())) }()
		out, err := handle.Run(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, "bill of b, sent, shipped", out)

		other, err := troupe.NewInMemory(calm())
		require.NoError(t, err)
		_, err = troupe.Register(other, shipping(bill(d)))
		require.NoError(t, err)
		_, err = troupe.Register(other, troupe.Define("bill", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			return troupe.Step0(b, "other", func(_ context.Context, in string) (string, error) { return in, nil })
		}))
		require.NoError(t, err)
		problem(other, `another workflow "bill" is registered with this engine`, "register the one that Child names")
	})
}

// The input of a child run that cannot be stored fails the step that begins it, for good.
func TestB42InputsOfChildRunsThatCannotBeStored(t *testing.T) {
	virtual(t, func(t *testing.T) {
		child := troupe.Define("any", func(b *troupe.Builder[any]) troupe.StepRef[string] {
			return troupe.Step0(b, "end", func(context.Context, any) (string, error) { return "", nil })
		})
		long := strings.Repeat("x", 900)
		of := func(value any) *troupe.Workflow[string, string] {
			return troupe.Define("of-any", func(b *troupe.Builder[string]) troupe.StepRef[string] {
				// Its output is encoded, too: what cannot be fails this step.
				input := troupe.Step0(b, "make", func(context.Context, string) (any, error) { return value, nil })
				return troupe.Child(b, "child", child, input)
			})
		}
		for name, test := range map[string]struct {
			value any
			class string
			text  string
		}{
			"channel":   {make(chan int), "encoding", "chan int"},
			"too large": {strings.Repeat("x", 2000), "too_large", "output"},
		} {
			engine, handle := parent(t, child, of(test.value), func(c *troupe.Config) { c.PayloadLimit = 1 << 10 })
			run := begin(t, handle, name)
			require.Equal(t, troupe.StateFailed, stepOf(t, run, "make").State)
			require.Equal(t, test.class, stepOf(t, run, "make").Class)
			require.Contains(t, stepOf(t, run, "make").Error, test.text)
			page, err := engine.Runs(t.Context(), troupe.Filter{Parent: run.ID()})
			require.NoError(t, err)
			require.Empty(t, page.Runs)
		}
		// The codec may take the value as an output, and not as an input.
		for codec, test := range map[troupe.Codec]struct{ class, text string }{
			placed{refuse: true}: {"encoding", `encode the input of workflow "any": not as an input`},
			placed{grow: 1000}:   {"too_large", "the input of the child run has 1902 bytes, the limit is 1024"},
		} {
			engine, handle := parent(t, child, of(long), coded(codec), func(c *troupe.Config) { c.PayloadLimit = 1 << 10 })
			run, err := handle.RunNoWait(t.Context(), "")
			require.NoError(t, err)
			_, err = run.Await(t.Context())
			var failed *troupe.RunError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, []any{"child", test.class}, []any{failed.Step, failed.Class}, failed.Text)
			require.Contains(t, failed.Text, test.text)
			require.Equal(t, 1, stepOf(t, run, "child").Attempt, "no other attempt cures that")
			require.True(t, stepOf(t, run, "child").Child.IsZero())
			page, err := engine.Runs(t.Context(), troupe.Filter{Parent: run.ID()})
			require.NoError(t, err)
			require.Empty(t, page.Runs)
		}
	})
}

// placed treats inputs of child runs in another way than other payloads.
type placed struct {
	refuse bool
	grow   int
}

func (placed) Marshal(any) ([]byte, error)     { return nil, errNotTold }
func (placed) Unmarshal(_ []byte, _ any) error { return errNotTold }

func (c placed) MarshalFor(p troupe.PayloadPlace, value any) ([]byte, error) {
	data, err := troupe.JSON{}.Marshal(value)
	if p.Workflow != "any" || p.Kind != troupe.PayloadInput {
		return data, err
	}
	if c.refuse {
		return nil, errors.New("not as an input")
	}
	return append(data, strings.Repeat(" ", c.grow)...), err
}

func (placed) UnmarshalFor(_ troupe.PayloadPlace, data []byte, target any) error {
	return troupe.JSON{}.Unmarshal(data, target)
}

// A condition on the input of a child run that panics fails that run, as it does any other.
func TestB42AConditionOnTheInputOfAChildRunThatPanics(t *testing.T) {
	virtual(t, func(t *testing.T) {
		child := troupe.Define("picky", func(b *troupe.Builder[string]) troupe.StepRef[string] {
			return troupe.Step0(b, "end", func(_ context.Context, in string) (string, error) { return in, nil },
				troupe.SkipIf(b.Input(), func(in string) bool { return in[3] == 'x' }))
		})
		engine, handle := parent(t, child, shipping(child))
		run := begin(t, handle, "a")
		_, err := run.Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrChildFailed)
		require.ErrorContains(t, err, `step "end": SkipIf on the input: panic: `)
		require.Equal(t, "condition", childOf(t, engine, run, "bill").Class)
	})
}

// sealedFamily is a workflow whose run has a child run and a grandchild; its output is the one of
// a wait of the grandchild, and conditions look at it on both levels.
func sealedFamily() (grandchild, child, parent *troupe.Workflow[string, approval], ref *troupe.StepRef[approval]) {
	pass := func(_ context.Context, in string) (string, error) { return in + "'", nil }
	no := func(a approval) bool { return !a.OK }
	ref = new(troupe.StepRef[approval])
	grandchild = troupe.Define("grandchild", func(b *troupe.Builder[string]) troupe.StepRef[approval] {
		return troupe.WaitSignal(b, "approve", approved, troupe.After(troupe.Step0(b, "pass", pass)))
	})
	child = troupe.Define("child", func(b *troupe.Builder[string]) troupe.StepRef[approval] {
		asked := troupe.Child(b, "ask", grandchild, troupe.Step0(b, "pass", pass))
		troupe.Step0(b, "refuse", pass, troupe.After(asked), troupe.SkipIf(asked, no))
		return asked
	})
	parent = troupe.Define("parent", func(b *troupe.Builder[string]) troupe.StepRef[approval] {
		*ref = troupe.Child(b, "ask", child, troupe.Step0(b, "pass", pass))
		_, refused := troupe.If(*ref, func(a approval) bool { return a.OK })
		troupe.Step1(b, "tell", func(_ context.Context, in string, a approval) (string, error) {
			return in, errors.New(a.By + " said no")
		}, *ref, refused)
		b.OnFailure(func(ctx context.Context, _ string, _ []*troupe.StepError) error {
			a, err := troupe.Completed(ctx, *ref)
			if err == nil && a.By != "bob" {
				err = errors.New("it was " + a.By)
			}
			return err
		})
		return *ref
	})
	return grandchild, child, parent, ref
}

// A codec that binds payloads to their places opens the outputs of child runs and of their children.
func TestAnEncryptingCodecIsToldChildRuns(t *testing.T) {
	virtual(t, func(t *testing.T) {
		grandchild, child, top, ref := sealedFamily()
		config := calm()
		config.Codec = sealed{troupe.JSON{}}
		engine, err := troupe.NewInMemory(config)
		require.NoError(t, err)
		deep, err := troupe.Register(engine, grandchild)
		require.NoError(t, err)
		_, err = troupe.Register(engine, child)
		require.NoError(t, err)
		handle := join(t, engine, top)
		for _, want := range []approval{{"ann", true}, {"bob", false}} {
			run := begin(t, handle, "deal", troupe.Tenant("a"))
			below, err := engine.Status(t.Context(), "a", stepOf(t, run, "ask").Child)
			require.NoError(t, err)
			require.NoError(t, approved.Send(t.Context(), deep.Get("a", below.Steps[1].Child), want))
			out, err := run.Await(t.Context())
			if !want.OK {
				require.ErrorContains(t, err, "bob said no")
				require.Equal(t, troupe.StateCompleted, stepOf(t, run, "on-failure").State)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, want, out)
			out, err = troupe.OutputOf(t.Context(), run, *ref)
			require.NoError(t, err)
			require.Equal(t, want, out)
			require.Equal(t, "waiting queued started completed", strings.TrimPrefix(trail(t, run, "ask"), "queued started "))
		}
	})
}
