package orders_test

import (
	"context"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/examples/orders"
	"github.com/troupe-dev/troupe/simtest"
)

// careless is a mall that forgot the key: each call is a new payment.
type careless struct{ *mall }

func (c careless) Charge(ctx context.Context, _ string, cents int) (orders.Payment, error) {
	err := c.bank.Do(ctx, func(b *bank) error {
		b.taken += cents
		return nil
	})
	return orders.Payment{ID: "pay"}, err
}

// The mistake is found, and the guide shows what is printed.
func TestPayingTwiceIsFound(t *testing.T) {
	t.Parallel()
	failure := simtest.FindByCrashing(t, simtest.Options{}, func(s *simtest.Sim) {
		bank := &bank{}
		workflow := simtest.Register(s, orders.Workflow(careless{&mall{bank: simtest.NewService(s, bank)}}))
		s.Always("the order is paid once", func() bool { return bank.taken <= 4999 })
		_, _ = workflow.Start(orders.Order{ID: "o-1", Cents: 4999}).Await()
	})
	require.NotNil(t, failure)
	require.Contains(t, failure.Report, `Step "charge" of workflow "order-processing" was executed 2 times:`)
	require.Contains(t, failure.Report, "IdempotencyKey")
	shown(t, failure.Report)
}

var update = flag.Bool("update", false, "print the guide anew")

// shown compares the guide with a report: not its numbers and pods, nor the
// history, in which the engine may do the same in other steps.
func shown(t *testing.T, report string) {
	t.Helper()
	const path, start, end = "../../docs/testing-your-workflows.md", "<!-- report -->\n```text\n", "```\n<!-- /report -->"
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), start)
	require.True(t, ok)
	printed, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		printed = report
		require.NoError(t, os.WriteFile(path, []byte(before+start+printed+end+after), 0o600))
	}
	require.Equal(t, plain(report), plain(printed), "%s is out of date: go test ./examples/orders -update", path)
}

func plain(report string) string {
	before, rest, _ := strings.Cut(report, "The end of the history")
	_, after, _ := strings.Cut(rest, "To see it again")
	return regexp.MustCompile(`pod-[a-z]| *[0-9.]+(µs|ms|s)?`).ReplaceAllString(before+after, "_")
}
