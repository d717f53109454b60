package demo

import (
	"context"
	"errors"
	"hash/fnv"
	"time"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/census"
)

const (
	censusName = "census"
	probeName  = "probe"

	settleTime = time.Second            // the durable sleep in every run
	retryFirst = 250 * time.Millisecond // the wait after a flaky attempt
	flakyShare = 7                      // one package in so many has a first attempt that fails
)

// Parsed is what parsing says about a package.
type Parsed struct {
	Declarations int
	Tested       bool
}

// Verdict is what either branch says about a package's tests.
type Verdict struct{ Tests int }

// errFlaky fails the first attempt of a step on purpose.
var errFlaky = errors.New("this first attempt fails on purpose")

// counter holds the step functions of the census. Its root is the same on all
// pods, so an input is only a package's path.
type counter struct {
	root   string
	ledger *ledger
}

// defineCensus declares the workflow that counts one package.
//
//	list ─┬─ parse ─┬─ tests ──────┬─ merge ── settle ─┐
//	      │         └─ no-tests ───┘                   ├─ report
//	      ├─ comments (flaky) ─────────────────────────┤
//	      └─ size ─────────────────────────────────────┘
func defineCensus(c counter) *troupe.Workflow[string, census.Total] {
	return troupe.Define(censusName, func(b *troupe.Builder[string]) troupe.StepRef[census.Total] {
		listing := troupe.Step0(b, "list", c.list)

		parsed := troupe.Step1(b, "parse", c.parse, listing)
		comments := troupe.Step1(b, "comments", c.comments, listing, troupe.Retry{Attempts: 4, First: retryFirst})
		size := troupe.Step1(b, "size", c.size, listing)

		tested, untested := troupe.If(parsed, func(p Parsed) bool { return p.Tested })
		tests := troupe.Step1(b, "tests", c.tests, listing, tested)
		noTests := troupe.Step1(b, "no-tests", c.noTests, listing, untested)
		verdict := troupe.Step2(b, "merge", c.merge, troupe.Maybe(tests), troupe.Maybe(noTests))

		settle := troupe.Sleep(b, "settle", settleTime, troupe.After(verdict))
		return troupe.Step5(b, "report", c.report, listing, size, parsed, comments, verdict, troupe.After(settle))
	})
}

func (c counter) list(ctx context.Context, path string) (census.Listing, error) {
	return recorded(ctx, c.ledger, func() (census.Listing, error) { return census.List(c.root, path) })
}

func (c counter) parse(ctx context.Context, _ string, listing census.Listing) (Parsed, error) {
	return recorded(ctx, c.ledger, func() (Parsed, error) {
		declarations, err := census.CountDeclarations(c.root, listing)
		return Parsed{declarations, listing.HasTests()}, err
	})
}

// comments fails its first attempt for some packages, always the same ones.
func (c counter) comments(ctx context.Context, path string, listing census.Listing) (int, error) {
	return recorded(ctx, c.ledger, func() (int, error) {
		if troupe.Task(ctx).Attempt == 1 && isFlaky(path) {
			return 0, errFlaky
		}
		return census.CountComments(c.root, listing)
	})
}

func isFlaky(path string) bool {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(path)) // it never fails
	return hash.Sum32()%flakyShare == 0
}

func (c counter) size(ctx context.Context, _ string, listing census.Listing) (census.Size, error) {
	return recorded(ctx, c.ledger, func() (census.Size, error) { return census.CountSize(c.root, listing) })
}

func (c counter) tests(ctx context.Context, _ string, listing census.Listing) (Verdict, error) {
	return recorded(ctx, c.ledger, func() (Verdict, error) {
		tests, err := census.CountTests(c.root, listing)
		return Verdict{tests}, err
	})
}

func (c counter) noTests(ctx context.Context, _ string, _ census.Listing) (Verdict, error) {
	return recorded(ctx, c.ledger, func() (Verdict, error) { return Verdict{}, nil })
}

func (c counter) merge(ctx context.Context, _ string, tests, none troupe.Opt[Verdict]) (Verdict, error) {
	return recorded(ctx, c.ledger, func() (Verdict, error) {
		if verdict, ok := tests.Value(); ok {
			return verdict, nil
		}
		if verdict, ok := none.Value(); ok {
			return verdict, nil
		}
		return Verdict{}, troupe.Terminal(errors.New("neither branch was taken"))
	})
}

func (c counter) report(
	ctx context.Context, _ string, listing census.Listing, size census.Size, parsed Parsed, comments int, verdict Verdict,
) (census.Total, error) {
	return recorded(ctx, c.ledger, func() (census.Total, error) {
		return census.Combine(listing, size, parsed.Declarations, comments, verdict.Tests), nil
	})
}

// defineProbe declares the workflow that measures how soon an idle pod starts
// what was triggered: one step that does nothing.
func defineProbe() *troupe.Workflow[int, int] {
	return troupe.Define(probeName, func(b *troupe.Builder[int]) troupe.StepRef[int] {
		return troupe.Step0(b, "probe", func(_ context.Context, n int) (int, error) { return n, nil })
	})
}
