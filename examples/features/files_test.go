package features_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
)

// report is what became of the files.
type report struct {
	Lines   int
	Corrupt []int // by their place in the list
}

// reader reads a file and returns how many lines it has.
type reader func(ctx context.Context, path string) (int, error)

// listing lists so many files.
func listing(_ context.Context, n int) ([]string, error) {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("in/%04d.csv", i)
	}
	return paths, nil
}

// ingestion reads files, twenty at once on all pods together. One in twenty may be corrupt: the report
// names these. If more are, the run fails, and the run that continues it reads what was not read.
func ingestion(read reader) *troupe.Workflow[int, report] {
	tries := troupe.Retry{Attempts: 50, Never: []string{"corrupt"}}
	return troupe.Define("ingestion", func(b *troupe.Builder[int]) troupe.StepRef[report] {
		paths := troupe.Step0(b, "list", listing, tries)
		files := troupe.MapSettled(b, "files", paths, func(ctx context.Context, _ int, path string) (int, error) { return read(ctx, path) },
			troupe.MaxConcurrency(20), troupe.ToleratedFailures(0.05), tries)
		return troupe.Step1(b, "report", func(_ context.Context, _ int, files []troupe.ElementOutcome[int]) (report, error) {
			var r report
			for i, file := range files {
				lines, err := file.Value()
				if err != nil {
					r.Corrupt = append(r.Corrupt, i)
				}
				r.Lines += lines
			}
			return r, nil
		}, files, tries)
	})
}

// errCorrupt is what the reader says of a corrupt file.
var errCorrupt = troupe.Class("corrupt", errors.New("unexpected end of file"))

// bucket is where the files are.
type bucket struct {
	reads   map[string]int
	corrupt func(path string) bool
	open    int
	most    int
}

// every reports every nth file, the first among them, as corrupt.
func every(n int) func(path string) bool {
	return func(path string) bool {
		var at int
		_, err := fmt.Sscanf(path, "in/%d.csv", &at)
		return err == nil && at%n == 0
	}
}

// A thousand files are read, twenty at once, and the corrupt ones are in the report.
func TestFiles(t *testing.T) {
	bucket := &bucket{reads: map[string]int{}, corrupt: every(20)}
	lock := make(chan struct{}, 1)
	read := func(_ context.Context, path string) (int, error) {
		lock <- struct{}{}
		bucket.reads[path]++
		bucket.open++
		bucket.most = max(bucket.most, bucket.open)
		<-lock
		time.Sleep(time.Second)
		lock <- struct{}{}
		bucket.open--
		<-lock
		if bucket.corrupt(path) {
			return 0, errCorrupt
		}
		return 10, nil
	}
	inMemory(t, troupe.Config{Slots: 100}, ingestion(read), func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[int, report]) {
		run, err := handle.RunNoWait(t.Context(), 1000)
		require.NoError(t, err)
		time.Sleep(25*time.Second + time.Second/2)
		status, err := run.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, troupe.MapStatus{Items: 1000, Completed: 475, Failed: 25, Open: 20, Left: 480}, status.Steps[1].Map)
		page, err := run.Elements(t.Context(), "files", troupe.ElementFilter{States: []troupe.State{troupe.StateFailed}})
		require.NoError(t, err)
		require.Len(t, page.Elements, 25)
		require.Equal(t, []any{"files[40]", "corrupt", "unexpected end of file"}, []any{page.Elements[2].Name, page.Elements[2].Class, page.Elements[2].Error})

		out, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, 950*10, out.Lines)
		require.Len(t, out.Corrupt, 50)
		require.Equal(t, 20, bucket.most)
		require.Len(t, bucket.reads, 1000)
		letters, err := engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{})
		require.NoError(t, err)
		require.Empty(t, letters.Letters, "what is tolerated needs no operator")
	})
}

// The same on clusters that crash, with a pod that dies half-way. Too many files are corrupt: the run
// fails. When they were mended it is requeued, and reads the files that had not been read, and no
// other.
func TestFilesUnderFaults(t *testing.T) {
	t.Parallel()
	files := 1000
	if testing.Short() {
		files = 100
	}
	simtest.Run(t, simtest.Options{Seeds: 20}, func(s *simtest.Sim) {
		state := &bucket{reads: map[string]int{}, corrupt: every(10)}
		service := simtest.NewService(s, state)
		w := simtest.Register(s, ingestion(func(ctx context.Context, path string) (lines int, err error) {
			err = service.Do(ctx, func(b *bucket) error {
				b.reads[path]++
				if b.corrupt(path) {
					return errCorrupt
				}
				lines = 10
				return nil
			})
			return lines, err
		}))
		run := w.Start(files)
		for run.Elements("files", troupe.ElementFilter{Limit: 1}).Map.Completed < files/4 {
			s.Advance(time.Second)
		}
		s.Crash(s.Pods()[s.Rand().IntN(len(s.Pods()))])
		_, err := run.Await()
		require.ErrorIs(s, err, troupe.ErrElementFailed)
		require.ErrorContains(s, err, fmt.Sprintf("%d of %d elements failed, where %d may", files/20+1, files, files/20))

		before := map[string]int{}
		page := run.Elements("files", troupe.ElementFilter{States: []troupe.State{troupe.StateCompleted}})
		for _, file := range page.Elements {
			path := fmt.Sprintf("in/%04d.csv", file.Item)
			before[path] = state.reads[path]
		}
		state.corrupt = func(string) bool { return false }
		out, err := run.Requeue().Await()
		require.NoError(s, err)
		require.Equal(s, report{Lines: files * 10}, out)
		require.Len(s, state.reads, files)
		for path, n := range before {
			require.Equal(s, n, state.reads[path], "%s was read, and is read again", path)
		}
	})
}

// quotes asks each shop for a price, and for the rate of exchange beside that.
func quotes(ask func(ctx context.Context, shop string) (int, error)) *troupe.Workflow[[]string, int] {
	tries := troupe.Retry{Attempts: 50}
	return troupe.Define("quotes", func(b *troupe.Builder[[]string]) troupe.StepRef[int] {
		shops := troupe.Step0(b, "shops", func(_ context.Context, shops []string) ([]string, error) { return shops, nil }, tries)
		prices := troupe.Map(b, "prices", shops, func(ctx context.Context, _ []string, shop string) (int, error) { return ask(ctx, shop) }, tries)
		rate := troupe.Step1(b, "rate", func(context.Context, []string, []string) (int, error) { return 2, nil }, shops, tries)
		return troupe.Step2(b, "best", func(_ context.Context, _ []string, prices []int, rate int) (int, error) {
			return slices.Min(prices) * rate, nil
		}, prices, rate, tries)
	})
}

// A map is a step as any other: here it is one side of a diamond.
func TestAMapInADiamond(t *testing.T) {
	ask := func(_ context.Context, shop string) (int, error) { return len(shop), nil }
	inMemory(t, troupe.Config{}, quotes(ask), func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[[]string, int]) {
		best, err := handle.Run(t.Context(), []string{"corner", "mall", "market"})
		require.NoError(t, err)
		require.Equal(t, 8, best)
	})
}

// The same on clusters that crash.
func TestAMapInADiamondUnderFaults(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 20}, func(s *simtest.Sim) {
		service := simtest.NewService(s, &bucket{reads: map[string]int{}})
		w := simtest.Register(s, quotes(func(ctx context.Context, shop string) (int, error) {
			return len(shop), service.Do(ctx, func(b *bucket) error { b.reads[shop]++; return nil })
		}))
		best, err := w.Start([]string{"corner", "mall", "market"}).Await()
		require.NoError(s, err)
		require.Equal(s, 8, best)
	})
}
