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
	return d.Program(nil, nil).Bind(with)
}

// binding is what an engine adds to the programs that it runs.
func (c Config) binding(waits *nested) program.Binding {
	return program.Binding{
		Codec: c.Codec, Retry: c.Retry.policy(), RetryIf: c.Retry.If,
		AttemptTimeout: c.AttemptTimeout, InTxTimeout: c.InTxTimeout,
		Context: func(ctx context.Context) context.Context {
			return waits.withNested(withCodec(ctx, c.Codec))
		},
	}
}
