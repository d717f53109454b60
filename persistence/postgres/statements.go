package postgres

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/*.sql sql/parts/*.sql
var files embed.FS

// named are the arguments of a statement by name.
type named map[string]any

// statement is one file of sql/, ready to be sent.
type statement struct {
	text string   // with the schema and numbered arguments
	args []string // names, by number
}

// statements are all of them, by name of their files. It is read only.
type statements map[string]statement

var argument = regexp.MustCompile(`@([a-z_]+)`)

// loadStatements fills the schema and the shared parts into the embedded files.
func loadStatements(schema string) (statements, error) {
	parts, err := readFolder("sql/parts")
	if err != nil {
		return nil, err
	}
	var fill []string
	for name, text := range parts {
		fill = append(fill, "{"+name+"}", strings.TrimSpace(text))
	}
	filler := strings.NewReplacer(fill...)
	texts, err := readFolder("sql")
	if err != nil {
		return nil, err
	}
	all := make(statements, len(texts))
	for name, text := range texts {
		all[name] = newStatement(name, filler.Replace(text), schema)
	}
	return all, nil
}

// readFolder returns the texts of the files of a folder by their names.
func readFolder(folder string) (map[string]string, error) {
	entries, err := fs.ReadDir(files, folder)
	if err != nil {
		return nil, err
	}
	texts := make(map[string]string, len(entries))
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), ".sql")
		if !is {
			continue
		}
		text, err := fs.ReadFile(files, folder+"/"+entry.Name())
		if err != nil {
			return nil, err
		}
		texts[name] = string(text)
	}
	return texts, nil
}

// newStatement numbers the arguments and drops the header; what stays of it is
// the name, which then shows in pg_stat_activity.
func newStatement(name, text, schema string) statement {
	var body []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			body = append(body, line)
		}
	}
	s := statement{}
	numbers := map[string]int{}
	numbered := argument.ReplaceAllStringFunc(strings.Join(body, ""), func(found string) string {
		arg := found[1:]
		if numbers[arg] == 0 {
			s.args = append(s.args, arg)
			numbers[arg] = len(s.args)
		}
		return fmt.Sprintf("$%d", numbers[arg])
	})
	numbered = strings.ReplaceAll(numbered, "{schema}", pgx.Identifier{schema}.Sanitize())
	s.text = "/* troupe " + name + " */ " + strings.TrimSpace(numbered)
	return s
}

// bind returns the text of a statement and its arguments in order. A name too
// many or too few is a bug of the caller.
func (s statements) bind(name string, args named) (string, []any) {
	st, ok := s[name]
	if !ok || len(st.args) != len(args) {
		panic(fmt.Sprintf("statement %s: want arguments %v, got %d", name, st.args, len(args)))
	}
	values := make([]any, len(st.args))
	for i, arg := range st.args {
		value, ok := args[arg]
		if !ok {
			panic(fmt.Sprintf("statement %s: argument %s is missing", name, arg))
		}
		values[i] = value
	}
	return st.text, values
}

// batch is several statements in one round trip.
type batch struct {
	statements statements
	pgx.Batch
}

// aheadMin is how large the arguments of a batch are at least that a small statement
// goes ahead of.
const aheadMin = 16 << 10

// ahead returns what is to be sent. Until a server has all of the first message it takes
// a session for idle, and ends it if it is in a transaction: on a slow network a large
// value takes longer than that.
func (b *batch) ahead() *pgx.Batch {
	size := 0
	for _, query := range b.QueuedQueries {
		for _, arg := range query.Arguments {
			size += sizeOf(arg)
		}
	}
	if size >= aheadMin {
		b.QueuedQueries = slices.Insert(b.QueuedQueries, 0, &pgx.QueuedQuery{SQL: "select"})
	}
	return &b.Batch
}

// sizeOf is how many bytes an argument has at least.
func sizeOf(arg any) (size int) {
	switch arg := arg.(type) {
	case []byte:
		return len(arg)
	case string:
		return len(arg)
	case [][]byte:
		for _, value := range arg {
			size += len(value)
		}
	case []string:
		for _, value := range arg {
			size += len(value)
		}
	}
	return size
}

func (s *Store) newBatch() *batch { return &batch{statements: s.statements} }

// add queues a statement; its results are dropped unless the returned value is
// given a function for them.
func (b *batch) add(name string, args named) *pgx.QueuedQuery {
	text, values := b.statements.bind(name, args)
	return b.Queue(text, values...)
}
