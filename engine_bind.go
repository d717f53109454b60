package troupe

import (
	"cmp"
	"context"

	"github.com/troupe-dev/troupe/internal/program"
)

// bind makes a definition ready for an engine.
func bind[I, O any](d Definition[I, O], with program.Binding) (*program.Bound, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	p := d.Program(nil, nil)
	if problems := p.CodecProblems(with); len(problems) > 0 {
		return nil, &DefinitionError{Workflow: d.Name(), Problems: problems}
	}
	return p.Bind(with)
}

// isJSON reports whether payloads are JSON's, maybe changed by the codec without loss.
func (c Config) isJSON() bool {
	plain, _ := plainOf(c.Codec)
	_, is := plain.(JSON)
	return is
}

// binding is what an engine adds to the programs that it runs. engine is nil where there is none.
func (c Config) binding(engine *Engine) program.Binding {
	within := &scope{codec: c.Codec, engine: engine}
	if engine != nil {
		within.logger = cmp.Or(engine.unqueued, c.Logger)
	}
	plain, below := plainOf(c.Codec)
	if !below {
		plain = nil
	}
	binding := program.Binding{
		Codec: c.Codec, Plain: plain, JSON: c.isJSON(), Retry: c.Retry.policy(), RetryIf: c.Retry.If,
		AttemptTimeout: c.AttemptTimeout, InTxTimeout: c.InTxTimeout, Context: within.in,
	}
	if c.Wrap != nil {
		inStep := binding.Context
		binding.Context = func(ctx context.Context) context.Context { return ctx } // which comes from Wrap
		binding.Wrap = func(ctx context.Context, next func(context.Context) error) error {
			ctx = inStep(ctx)
			return c.Wrap(ctx, Task(ctx), next)
		}
	}
	return binding
}
