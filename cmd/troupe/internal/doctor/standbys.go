package doctor

import (
	"time"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/explain"
)

// standbys looks for commits that a synchronous standby does not confirm.
func standbys(p *patient) error {
	const query = `select current_setting('synchronous_standby_names'), count(*), coalesce(extract(epoch from max(clock_timestamp() - query_start)), 0)::float8
		from pg_stat_activity where wait_event = 'SyncRep' and clock_timestamp() - query_start > $1`
	var names string
	var waiting int
	var age float64
	if err := p.row(query, []any{p.options.limits.confirmed}, &names, &waiting, &age); err != nil || waiting == 0 {
		return err
	}
	p.problem("%s to be confirmed by a synchronous standby, begun up to %s ago (synchronous_standby_names is %q): nothing is acknowledged meanwhile, and no lease renewed",
		"bring the standby back; or take it out of synchronous_standby_names and reload, if what is acknowledged from then on may be on this server alone",
		output.Several(waiting, "commit waits", "commits wait"), explain.Span(time.Duration(age*float64(time.Second))), names)
	return nil
}
