package acceptance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

var update = flag.Bool("update", false, "rewrite what docs/sql.md shows")

type purchase struct {
	Customer string `json:"customer"`
	Total    int    `json:"total"`
}

// purchases starts an engine and runs some orders, of which the last one failed.
func purchases(t *testing.T) (pool *pgxpool.Pool, last troupe.RunID) {
	t.Helper()
	pool = migratedPool(t, pgtest.Database(t), nil)
	engine, err := troupe.New(pool, troupe.Config{PodName: "pod-a"})
	require.NoError(t, err)
	orders := join(t, engine, troupe.Define("order", func(b *troupe.Builder[purchase]) troupe.StepRef[purchase] {
		reserve := troupe.Step0(b, "reserve", func(_ context.Context, in purchase) (map[string]string, error) {
			return map[string]string{"shelf": "B" + in.Customer[1:]}, nil
		})
		return troupe.Step1(b, "charge", func(_ context.Context, in purchase, _ map[string]string) (purchase, error) {
			if in.Total > 1000 {
				return in, troupe.Terminal(troupe.Class("declined", errors.New("card declined")))
			}
			return in, nil
		}, reserve)
	}))
	for i, order := range []purchase{{"c-9", 2500}, {"c-17", 80}, {"c-4", 12}, {"c-17", 1200}} {
		run, err := orders.RunNoWait(t.Context(), order, troupe.Tenant("acme"), troupe.Labels(map[string]string{"region": []string{"eu", "us"}[i%2]}))
		require.NoError(t, err)
		_, err = run.Await(t.Context())
		require.Equal(t, order.Total > 1000, errors.Is(err, troupe.ErrRunFailed), "%v", err)
		last = run.ID()
	}
	return pool, last
}

// The page shows what its statements answer.
func TestTheQueriesOfThePageAnswer(t *testing.T) {
	t.Parallel()
	const path, id = "../../docs/sql.md", "0190ee76-76b1-7102-8304-05060708090a"
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	pool, last := purchases(t)
	shown := regexp.MustCompile("(?s)```sql\n(select .*?)```\n\n```text\n.*?```")
	require.Len(t, shown.FindAll(page, -1), 3)
	want := shown.ReplaceAllStringFunc(string(page), func(block string) string {
		statement := shown.FindStringSubmatch(block)[1]
		return "```sql\n" + statement + "```\n\n```text\n" + answer(t, pool, strings.ReplaceAll(statement, id, last.String())) + "```"
	})
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(page), "go test ./internal/acceptance -run TestTheQueriesOfThePageAnswer -update")
}

// answer renders what a statement answers, as psql does.
func answer(t *testing.T, pool *pgxpool.Pool, statement string) string {
	t.Helper()
	rows, err := pool.Query(t.Context(), statement, pgx.QueryExecModeSimpleProtocol) // which brings text
	require.NoError(t, err)
	defer rows.Close()
	var names []string
	for _, column := range rows.FieldDescriptions() {
		names = append(names, column.Name)
	}
	table := [][]string{names}
	for rows.Next() {
		var line []string
		for _, value := range rows.RawValues() {
			line = append(line, string(value))
		}
		table = append(table, line)
	}
	require.NoError(t, rows.Err())
	require.Greater(t, len(table), 1, statement)
	widths := make([]int, len(names))
	for _, line := range table {
		for i, text := range line {
			widths[i] = max(widths[i], len(text))
		}
	}
	var b strings.Builder
	for n, line := range table {
		var cells, rule []string
		for i, text := range line {
			cells = append(cells, fmt.Sprintf(" %-*s ", widths[i], text))
			rule = append(rule, strings.Repeat("-", widths[i]+2))
		}
		b.WriteString(strings.TrimRight(strings.Join(cells, "|"), " ") + "\n")
		if n == 0 {
			b.WriteString(strings.Join(rule, "+") + "\n")
		}
	}
	return b.String()
}
