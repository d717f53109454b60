package troupe

import (
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

// binding is what an engine adds to the programs that it runs.
func (c Config) binding(engine *Engine) program.Binding {
	within := &scope{codec: c.Codec, engine: engine}
	plain, below := plainOf(c.Codec)
	_, isJSON := plain.(JSON)
	if !below {
		plain = nil
	}
	return program.Binding{
		Codec: c.Codec, Plain: plain, JSON: isJSON, Retry: c.Retry.policy(), RetryIf: c.Retry.If,
		AttemptTimeout: c.AttemptTimeout, InTxTimeout: c.InTxTimeout,
		Context: func(ctx context.Context) context.Context {
			return context.WithValue(ctx, scopeKey{}, within)
		},
	}
}
