package simtest

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// replay is a file of testdata/simtest: a simulation that failed.
type replay struct {
	setting

	Promise string `json:"promise"` // that was broken
	Text    string `json:"text"`
}

// folder is where the replays of a test are.
func (b *batch) folder() string {
	return filepath.Join("testdata", "simtest", filepath.FromSlash(strings.ReplaceAll(b.t.Name(), ":", "_")))
}

// load reads the replays, in the order of their names.
func (b *batch) load() []setting {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(b.folder(), "*.json"))
	if err != nil {
		b.t.Fatal(err)
	}
	slices.SortFunc(files, func(x, y string) int { return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) })
	var list []setting
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			b.t.Fatal(err)
		}
		var r replay
		if err := json.Unmarshal(content, &r); err != nil {
			b.t.Fatalf("%s is not a replay file: %v: delete it", file, err)
		}
		list = append(list, r.setting)
	}
	return list
}

// keep writes a replay and returns the name of the file; "": it could not.
func (b *batch) keep(o *outcome) string {
	content, err := json.MarshalIndent(replay{o.setting, o.violation.Promise, firstLine(o.violation.Text)}, "", "  ")
	if err != nil {
		return ""
	}
	file := filepath.Join(b.folder(), o.setting.name()+".json")
	if os.MkdirAll(filepath.Dir(file), 0o755) != nil || os.WriteFile(file, append(content, '\n'), 0o644) != nil {
		return ""
	}
	return file
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
