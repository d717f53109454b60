package doctor

import (
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/output"
	"github.com/troupe-dev/troupe/persistence/postgres/audit"
)

// lacksResources is the class of the SQLSTATEs of a server that has no room for something.
const lacksResources = "53"

// promises looks through the tables for what must not be, one query at a time.
func promises(p *patient) error {
	patience := p.options.Patience
	if patience == 0 {
		patience = time.Minute
	}
	for _, finding := range audit.Run(p.ctx, p.conn, p.options.Schema, patience) {
		switch {
		case finding.Err != nil:
			remedy := "ask again when there is less to do, or with a longer --deep-timeout"
			if refused := (*pgconn.PgError)(nil); errors.As(finding.Err, &refused) && strings.HasPrefix(refused.Code, lacksResources) {
				remedy = "ask as a role that may use more (temp_file_limit, work_mem)"
			}
			p.warn("%s (%s) was not finished: %v", remedy, finding.Promise, finding.Name, finding.Err)
		case finding.Count > 0:
			remedy := "a mistake of the engine, or of a program that wrote to its tables: report it with this line"
			if finding.Remedy != "" {
				remedy = finding.Remedy + "; unless another program wrote to the tables, it is a mistake of the engine: report it with this line"
			}
			p.problem("%s is broken %s (%s), for instance %s", remedy,
				finding.Promise, output.Several(finding.Count, "time", "times"), finding.Name, finding.Example)
		}
	}
	return nil
}
