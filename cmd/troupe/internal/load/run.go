package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/testbed"
)

// Run puts the load on the engine and prints the report. The end of ctx stops
// the load; the report then is that of what was done.
func Run(ctx context.Context, o Options) (err error) {
	d := &director{options: o, display: newDisplay(o.Out)}
	if o.DatabaseURL == "" {
		d.display.say("starting a private PostgreSQL (TROUPE_DATABASE_URL names another one)")
	}
	if d.bed, err = testbed.Open(ctx, o.DatabaseURL); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.bed.Close(ctx)) }()
	defer d.end()
	if err := d.start(ctx); err != nil {
		return err
	}
	lasting := context.WithoutCancel(ctx)
	before, err := d.bed.Usage(lasting)
	if err != nil {
		return err
	}
	d.display.say("%s\n", o.describe())
	err = d.perform(ctx)
	d.display.clear()
	if err != nil {
		return err
	}
	accounts, err := d.finish(lasting)
	if err != nil {
		return err
	}
	after, err := d.bed.Usage(lasting) // the pods' sessions are over, so all of their transactions are counted
	if err != nil {
		return err
	}
	counted, err := takeCensus(lasting, d.bed.Pool)
	if err != nil {
		return err
	}
	r := newReport(d, accounts, counted.since(d.before), after.Since(before))
	d.display.print(r.text())
	if o.JSON {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		d.display.print(string(line) + "\n")
	}
	return r.problem()
}

// problem is what a load that went well does not have.
func (r Report) problem() error {
	switch {
	case r.Runs.Triggered == 0 && r.Runs.Refused > 0:
		return fmt.Errorf("no run was triggered: %s", r.Runs.Refusal)
	case r.Runs.Open > 0:
		return fmt.Errorf("%s had not ended when nothing moved any more", plural(r.Runs.Open, "run"))
	case r.Runs.Unasked > 0:
		return fmt.Errorf("%s failed unasked", plural(r.Runs.Unasked, "run"))
	}
	return nil
}
