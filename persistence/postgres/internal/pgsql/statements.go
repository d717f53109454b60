package pgsql

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/*.sql sql/*/*.sql
var files embed.FS

// Named are the arguments of a statement by name.
type Named map[string]any

// Statement is one file of sql/, ready to be sent.
type Statement struct {
	Text string   // with the schema and numbered arguments
	Args []string // names, by number
}

// Statements are all of them, by name of their files. It is read only.
type Statements map[string]Statement

var argument = regexp.MustCompile(`@([a-z_]+)`)

// Load fills the schema and the shared parts into the embedded files.
func Load(schema string) (Statements, error) {
	texts, parts := map[string]string{}, map[string]string{}
	err := fs.WalkDir(files, "sql", func(path string, entry fs.DirEntry, err error) error {
		file, is := strings.CutSuffix(entry.Name(), ".sql")
		if err != nil || !is {
			return err
		}
		into := texts
		if strings.HasPrefix(path, "sql/parts/") {
			into = parts
		}
		if _, twice := into[file]; twice {
			return fmt.Errorf("two statements have the name %s", file)
		}
		text, err := fs.ReadFile(files, path)
		into[file] = string(text)
		return err
	})
	if err != nil {
		return nil, err
	}
	var fill []string
	for name, text := range parts {
		fill = append(fill, "{"+name+"}", strings.TrimSpace(text))
	}
	filler := strings.NewReplacer(fill...)
	all := make(Statements, len(texts))
	for name, text := range texts {
		all[name] = NewStatement(name, filler.Replace(filler.Replace(text)), schema) // parts may have one
	}
	return all, nil
}

// NewStatement numbers the arguments and drops the header; what stays of it is
// the name, which then shows in pg_stat_activity.
func NewStatement(name, text, schema string) Statement {
	var body []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			body = append(body, line)
		}
	}
	s := Statement{}
	numbers := map[string]int{}
	numbered := argument.ReplaceAllStringFunc(strings.Join(body, ""), func(found string) string {
		arg := found[1:]
		if numbers[arg] == 0 {
			s.Args = append(s.Args, arg)
			numbers[arg] = len(s.Args)
		}
		return fmt.Sprintf("$%d", numbers[arg])
	})
	numbered = strings.ReplaceAll(numbered, "{schema}", pgx.Identifier{schema}.Sanitize())
	s.Text = "/* troupe " + name + " */ " + strings.TrimSpace(numbered)
	return s
}

// Bind returns the text of a statement and its arguments in order. A name too
// many or too few is a bug of the caller.
func (s Statements) Bind(name string, args Named) (string, []any) {
	st, ok := s[name]
	if !ok || len(st.Args) != len(args) {
		panic(fmt.Sprintf("statement %s: want arguments %v, got %d", name, st.Args, len(args)))
	}
	values := make([]any, len(st.Args))
	for i, arg := range st.Args {
		value, ok := args[arg]
		if !ok {
			panic(fmt.Sprintf("statement %s: argument %s is missing", name, arg))
		}
		switch value := value.(type) {
		case []string:
			values[i] = texts(value)
		case [][]byte:
			values[i] = payloads(value)
		default:
			values[i] = value
		}
	}
	return st.Text, values
}

// Batch is several statements in one round trip.
type Batch struct {
	statements Statements
	pgx.Batch
}

// aheadMin is how large the arguments of a batch are at least that a small statement
// goes ahead of.
const aheadMin = 16 << 10

// Ahead returns what is to be sent. Until a server has all of the first message it takes
// a session for idle, and ends it if it is in a transaction: on a slow network a large
// value takes longer than that.
func (b *Batch) Ahead() *pgx.Batch {
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
	case payloads:
		for _, value := range arg {
			size += len(value)
		}
	case texts:
		for _, value := range arg {
			size += len(value)
		}
	}
	return size
}

// Add queues a statement; its results are dropped unless the returned value is
// given a function for them.
func (b *Batch) Add(name string, args Named) *pgx.QueuedQuery {
	text, values := b.statements.Bind(name, args)
	return b.Queue(text, values...)
}
