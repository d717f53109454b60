package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/internal/planted"
)

// plants builds the binary with mistakes in it, and looks for each of them. The
// same binary must find nothing while none is switched on.
func (o Options) plants(ctx context.Context, result *Result) (problems []string, err error) {
	dir, err := os.MkdirTemp("", "troupe-planted-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "troupe")
	o.say("building a second binary with %d mistakes planted", len(planted.All()))
	if err := planted.Build(ctx, o.Dir, "./cmd/troupe", binary); err != nil {
		return nil, err
	}
	longest := map[string]int{} // seeds by classes
	for _, p := range planted.All() {
		began := time.Now()
		r, err := o.search(ctx, binary, p.Name, p.Seeds, p.Classes)
		if err != nil {
			return nil, fmt.Errorf("plant %s: %w", p.Name, err)
		}
		result.PlantedTotal++
		if r.Violations == 0 {
			problems = append(problems, fmt.Sprintf("%s was not found in %s", p.Name, output.Count(p.Seeds, "seed")))
			o.say("NOT FOUND  %-26s in %4d seeds: %s", p.Name, p.Seeds, p.What)
			continue
		}
		result.PlantedFound++
		classes := strings.Join(p.Classes, ",")
		longest[classes] = max(longest[classes], r.Seeds)
		o.say("found      %-26s by seed %4d of %4d, %5.1f s: %s", p.Name, r.Seeds, p.Seeds, time.Since(began).Seconds(), p.What)
	}
	for _, classes := range sortedKeys(longest) {
		r, err := o.search(ctx, binary, "", longest[classes], splitClasses(classes))
		if err != nil {
			return nil, err
		}
		if r.Violations > 0 {
			problems = append(problems, fmt.Sprintf("with no mistake switched on, a promise was broken by seed %d", r.Seeds))
		}
		o.say("none on: %s in %s", output.Count(r.Violations, "violation"), output.Count(r.Seeds, "seed"))
	}
	return problems, nil
}

// search runs seeds in the other binary until a promise is broken.
func (o Options) search(ctx context.Context, binary, plant string, seeds int, classes []string) (Result, error) {
	args := []string{"sim", "--json", "--first", "--seed", "1", "--seeds", strconv.Itoa(seeds), "--workers", strconv.Itoa(o.Workers)}
	if plant != "" {
		args = append(args, "--plant", plant)
	}
	if len(classes) > 0 {
		args = append(args, "--faults", strings.Join(classes, ","))
	}
	c := exec.CommandContext(ctx, binary, args...) //nolint:gosec // it was built above
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	err := c.Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		return Result{}, err
	}
	for _, line := range strings.Split(said.String(), "\n") {
		var r Result
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &r) == nil {
			return r, nil
		}
	}
	return Result{}, fmt.Errorf("the second binary said:\n%s", said.String())
}
