package output

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table is rows of text below the names of their columns. Its texts may come from
// anywhere.
type Table struct{ lines []string }

// NewTable returns a table without rows.
func NewTable(columns ...string) *Table {
	t := &Table{}
	t.Add(columns...)
	return t
}

// Add adds a row. An empty cell is shown as a dash.
func (t *Table) Add(cells ...string) {
	for i, cell := range cells {
		if cells[i] = Plain(cell); cell == "" {
			cells[i] = "-"
		}
	}
	t.lines = append(t.lines, strings.Join(cells, "\t"))
}

// Write prints the table. Its columns are as wide as their widest cell.
func (t *Table) Write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, line := range t.lines {
		_, _ = fmt.Fprintln(table, line) // a tabwriter fails when it is flushed
	}
	return table.Flush()
}

// fieldWidth is how wide the names of fields are.
const fieldWidth = 12

// Fields are names with a value each, one a line.
type Fields struct{ b strings.Builder }

// Add adds a field. The value is one line, whatever is in it.
func (f *Fields) Add(name, format string, args ...any) {
	fmt.Fprintf(&f.b, "%-*s%s\n", fieldWidth, name, Plain(fmt.Sprintf(format, args...)))
}

// AddText adds a field whose value has lines of its own, below its name.
func (f *Fields) AddText(name, text string) {
	f.b.WriteString(name + "\n")
	for line := range strings.SplitSeq(text, "\n") {
		f.b.WriteString("  " + Plain(line) + "\n")
	}
}

// Write prints the fields.
func (f *Fields) Write(out io.Writer) error {
	_, err := io.WriteString(out, f.b.String())
	return err
}
