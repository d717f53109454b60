package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/census"
)

// ErrMismatch is returned by Run when something that must hold does not; what
// it is stands in the report.
var ErrMismatch = errors.New("the demo's result is not what it must be")

// Run does it all and prints the report.
func Run(ctx context.Context, o Options) (err error) {
	began := time.Now()
	d := newDisplay(o.Out)
	defer d.rest()
	root, packages, err := o.packages()
	if err != nil {
		return err
	}
	d.say("\n%s  %s packages in %s\n", d.ink.strong("troupe demo"), grouped(len(packages)), root)
	db, err := openDatabase(ctx, o.DatabaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close(ctx)) }()
	dir, err := os.MkdirTemp("", "troupe-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for ledgers: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	pods, err := launchTroop(ctx, launchSpec{program: o.Program, dir: dir, root: root, environ: o.podEnviron(db.url)}, podCount)
	if err != nil {
		return err
	}
	d.say("  PostgreSQL %s and %d pods with %d slots each are up after %s", db.version, podCount, o.slots(), duration(time.Since(began)))

	p := play{
		display: d, pods: pods, packages: packages, slots: o.slots(), tenants: tenantLines(packages),
		watcher: &watcher{pool: db.pool, names: map[int64]string{}},
	}
	err = p.perform(ctx)
	if err = errors.Join(err, pods.stop()); err != nil {
		return err
	}
	found, err := p.judge(ctx, root)
	if err != nil {
		return err
	}
	found.seconds = time.Since(began).Seconds()
	d.print(found.report(d.ink))
	var keeps *database
	if o.Keep {
		keeps = db
	}
	d.print(guide(d.ink, keeps, p.acknowledged[0]))
	if o.JSON {
		line, err := json.Marshal(found.result())
		if err != nil {
			return err
		}
		d.print("\n" + string(line) + "\n")
	}
	if o.Keep {
		db.stay(ctx)
	}
	if !found.holds() {
		return ErrMismatch
	}
	return nil
}

// packages finds what to count. A tree behind a symbolic link, as
// distributions install Go's own, is followed.
func (o Options) packages() (root string, packages []census.Package, err error) {
	if root, err = filepath.EvalSymlinks(o.Root); err != nil {
		return "", nil, fmt.Errorf("find the source tree: %w", err)
	}
	if root, err = filepath.Abs(root); err != nil {
		return "", nil, fmt.Errorf("find the source tree: %w", err)
	}
	if packages, err = census.Find(root); err != nil {
		return "", nil, err
	}
	if len(packages) == 0 {
		return "", nil, fmt.Errorf("no Go packages in %s: name another folder with --dir", root)
	}
	return root, census.AssignTenants(census.Choose(packages, o.Limit)), nil
}

// judge compares what the pods did with the straight loop, the history and the
// ledgers.
func (p *play) judge(ctx context.Context, root string) (outcome, error) {
	p.display.say("  checking against a straight loop, every task's history and the pods' ledgers")
	began := time.Now()
	straight, err := census.Count(root, p.packages, func() bool { return ctx.Err() == nil })
	if err != nil {
		return outcome{}, err
	}
	loop := time.Since(began)
	found, err := takeAudit(ctx, p.watcher, p.pods, p.acknowledged, p.killedAt)
	if err != nil {
		return outcome{}, err
	}
	names := make([]string, len(p.pods))
	for i, pod := range p.pods {
		names[i] = pod.name
	}
	result := outcome{
		audit: found, straight: straight, loop: loop, wanted: len(p.packages), tenants: p.tenants, pods: names,
		victim: p.victim, held: p.held, killed: p.killedAfter, tasks: p.took, led: p.victim != "" && p.reign.pod == p.victim,
	}
	if p.next.epoch > p.reign.epoch {
		result.reign = p.next.since.Sub(p.killedAt)
	}
	return result, nil
}
