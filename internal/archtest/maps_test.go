package archtest

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// crowded is from how many source files on a room needs a map in its doc.go: its
// list of files is too long to be read as one.
const crowded = 40

const mapTitle = "// # Where things are\n"

// TestMapsOfCrowdedRooms: every file of a crowded room stands on its map, once,
// and everything on a map is there.
func TestMapsOfCrowdedRooms(t *testing.T) {
	t.Parallel()
	for _, finding := range offMaps(repository(t)) {
		t.Error(finding)
	}
}

// offMaps finds what is missing, doubled or gone on the maps of rooms.
func offMaps(sources []source) []string {
	files, docs := map[string][]string{}, map[string]string{}
	for _, s := range sources {
		switch {
		case s.syntax == nil || s.isTest() || s.generated():
		case path.Base(s.path) == "doc.go":
			docs[s.room()] = s.text
		default:
			files[s.room()] = append(files[s.room()], strings.TrimSuffix(path.Base(s.path), ".go"))
		}
	}
	var findings []string
	for room, names := range files {
		_, drawn, found := strings.Cut(docs[room], mapTitle)
		switch {
		case !found && len(names) > crowded && room != ".":
			findings = append(findings, room+": more than "+itoa(crowded)+" files and no map of them in doc.go (# Where things are)")
		case found:
			findings = append(findings, off(room, names, entries(drawn))...)
		}
	}
	slices.Sort(findings)
	return findings
}

// mapLine is a line of a map: what it is about, and the files of that.
var mapLine = regexp.MustCompile(`(?m)^//   - [^:\n]+: (.+)$`)

// entries returns the names of files on a map.
func entries(drawn string) []string {
	var names []string
	for _, line := range mapLine.FindAllStringSubmatch(drawn, -1) {
		names = append(names, strings.Split(line[1], ", ")...)
	}
	return names
}

// off finds files that no entry, or more than one, stands for, and entries that
// stand for none. The entry of a file's own name goes before one with a star.
func off(room string, names, entries []string) []string {
	var findings []string
	stood := map[string]bool{}
	for _, name := range names {
		var by []string
		for _, entry := range entries {
			if prefix, star := strings.CutSuffix(entry, "*"); entry == name || star && strings.HasPrefix(name, prefix) && !slices.Contains(entries, name) {
				by = append(by, entry)
				stood[entry] = true
			}
		}
		if len(by) != 1 {
			findings = append(findings, room+": "+name+".go stands "+itoa(len(by))+" times on the map of doc.go: "+strings.Join(by, ", "))
		}
	}
	for _, entry := range entries {
		if !stood[entry] {
			findings = append(findings, room+": the map of doc.go names "+entry+", which stands for no file")
		}
	}
	return findings
}

func TestMapsFindEachKind(t *testing.T) {
	t.Parallel()
	room := func(names ...string) (sources []source) {
		for _, name := range names {
			sources = append(sources, parse(t, "room/"+name+".go", "package room\n"))
		}
		return sources
	}
	drawn := parse(t, "room/doc.go", "// Package room.\n//\n"+mapTitle+"//\n//   - some: a*, b\n//   - others: ab, c\npackage room\n")
	require.Empty(t, offMaps(append(room("a", "ab", "abc", "b", "c"), drawn)))
	require.Equal(t, []string{
		"room: d.go stands 0 times on the map of doc.go: ",
		"room: the map of doc.go names c, which stands for no file",
	}, offMaps(append(room("a", "ab", "b", "d"), drawn)))
	var many []string
	for i := range crowded + 1 {
		many = append(many, "f"+itoa(i))
	}
	require.Len(t, offMaps(room(many...)), 1)
	require.Empty(t, offMaps(room(many[1:]...)))
}
