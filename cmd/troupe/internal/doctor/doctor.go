package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Level says how much a finding matters.
type Level string

// The levels.
const (
	Problem Level = "problem" // something does not work, or will not for long
	Warning Level = "warning" // something works less well than it could
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Check  string `json:"check"`
	Level  Level  `json:"level"`
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// Report is what an examination found. Facts are worth knowing and nothing to
// mend.
type Report struct {
	Schema   string    `json:"schema"`
	Server   string    `json:"server"`
	Checks   []string  `json:"checks"` // that were made
	Facts    []string  `json:"facts"`
	Findings []Finding `json:"findings"` // in the order of the checks
}

// Problems counts the findings of that level.
func (r Report) Problems() int {
	n := 0
	for _, f := range r.Findings {
		if f.Level == Problem {
			n++
		}
	}
	return n
}

// Options say what to examine.
type Options struct {
	Schema   string
	PoolSize int              // connections of a pod's own pool; 0: 6
	Now      func() time.Time // the local clock
	Deep     bool             // look through the tables for broken promises, too
	Patience time.Duration    // for one such look; 0: a minute
	limits   limits
}

// limits are from where on something is found.
type limits struct {
	transaction time.Duration // age of a transaction that holds back vacuum
	touched     time.Duration // age of a transaction that may hold rows that are passed over
	confirmed   time.Duration // that a commit waits for a standby
	hidden      int64         // transactions since one began whose age is hidden, and that holds back vacuum
	filling     float64       // part of the queue of notifications that is in use
	full        float64       // the same, shortly before they are refused
	dead        int64         // dead rows of a hot table, beside as many living ones
	skew        time.Duration // between this machine's clock and the server's
	silent      time.Duration // that the session of a leader says nothing
	late        time.Duration // of timers and of the intake
	retained    int64         // bytes of WAL that a slot keeps
	held        int64         // transactions whose rows a slot or a standby keeps
	frozen      float64       // times autovacuum_freeze_max_age that a table is old
	used        float64       // part of a resource
	groups      int64         // tenants
}

func usual() limits {
	return limits{
		hidden: 100_000, filling: 0.5, full: 0.9,
		transaction: 5 * time.Minute, touched: 10 * time.Second, confirmed: 5 * time.Second, dead: 100_000, skew: 2 * time.Second, silent: 15 * time.Second, late: 30 * time.Second, retained: 1 << 30, held: 1_000_000, frozen: 2,
		used: 0.8, groups: 1<<20 - 1,
	}
}

// patient is one connection to what is examined.
type patient struct {
	ctx     context.Context //nolint:containedctx // a patient does not outlive the examination
	pool    *pgxpool.Pool
	conn    *pgx.Conn
	options Options
	report  *Report
	check   string
	empty   bool // there are no tables, or not all

	publication string // why it is missing, as the check schema finds it
}

// check is one subject.
type check struct {
	name   string
	tables bool // it reads the tables
	look   func(p *patient) error
}

func checks() []check {
	return []check{
		{"server", false, server},
		{"durability", false, durability},
		{"standbys", false, standbys},
		{"clock", false, clocks},
		{"visibility", false, visibility},
		{"connections", false, connections},
		{"schema", false, schema},
		{"indexes", true, indexed},
		{"additions", true, additions},
		{"rights", true, rights},
		{"wake", false, wake},
		{"publications", true, publications},
		{"slots", false, slots},
		{"notifications", false, notifications},
		{"vacuum", false, holders},
		{"dead rows", true, deadRows},
		{"locks", false, locks},
		{"pods", true, pods},
		{"timers", true, timers},
		{"intake", true, intake},
		{"parked", true, parked},
		{"orphans", true, orphans},
		{"ids", true, ids},
		{"history", true, history},
	}
}

// Examine looks at everything. The error is that of the connection: what a
// single check meets is a finding.
func Examine(ctx context.Context, pool *pgxpool.Pool, options Options) (Report, error) {
	if options.limits == (limits{}) {
		options.limits = usual()
	}
	if options.PoolSize == 0 {
		options.PoolSize = 6
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	report := Report{Schema: options.Schema, Checks: []string{}, Facts: []string{}, Findings: []Finding{}}
	p := &patient{ctx: ctx, pool: pool, conn: conn.Conn(), options: options, report: &report}
	defer func() { _ = p.exec(`reset all`) }() // the pool is about to be closed, or notices
	if err := p.exec(`set statement_timeout = '10s'; set lock_timeout = '500ms'; set search_path = pg_catalog; set default_transaction_read_only = on`); err != nil {
		return report, fmt.Errorf("connect: %w", err)
	}
	for _, c := range checks() {
		p.run(c)
	}
	if options.Deep && !p.empty {
		p.run(check{"promises", true, promises})
	}
	return report, ctx.Err()
}

// lockTimeout is the SQLSTATE of a statement that waited too long for a lock.
const lockTimeout = "55P03"

func (p *patient) run(c check) {
	if c.tables && p.empty || p.ctx.Err() != nil {
		return
	}
	p.check = c.name
	p.report.Checks = append(p.report.Checks, c.name)
	err := c.look(p)
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == lockTimeout {
		p.warn("it could not be looked at: %s", "the check locks names the holder of the lock, if it has lasted for a while; run doctor again after that", err)
		return
	}
	if err != nil {
		p.warn("it could not be looked at: %s", "mend that and ask again; a role with pg_monitor sees the most", err)
	}
}

func (p *patient) problem(text, remedy string, args ...any) { p.find(Problem, text, remedy, args) }

func (p *patient) warn(text, remedy string, args ...any) { p.find(Warning, text, remedy, args) }

// find notes a finding; args are those of the text.
func (p *patient) find(level Level, text, remedy string, args []any) {
	p.report.Findings = append(p.report.Findings, Finding{p.check, level, fmt.Sprintf(text, args...), remedy})
}

func (p *patient) fact(format string, args ...any) {
	p.report.Facts = append(p.report.Facts, fmt.Sprintf(format, args...))
}

func (p *patient) filled(sql string) string {
	return strings.ReplaceAll(sql, "{schema}", pgx.Identifier{p.options.Schema}.Sanitize())
}

func (p *patient) exec(sql string) error {
	_, err := p.conn.Exec(p.ctx, sql)
	return err
}

// row reads the only row of a query.
func (p *patient) row(sql string, args []any, targets ...any) error {
	return p.conn.QueryRow(p.ctx, p.filled(sql), args...).Scan(targets...)
}

// each calls use for each row of a query.
func (p *patient) each(sql string, args, targets []any, use func()) error {
	rows, err := p.conn.Query(p.ctx, p.filled(sql), args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, targets, func() error { use(); return nil })
	return err
}
