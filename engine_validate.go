package troupe

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-dev/troupe/migrations"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// ConfigError is one problem of a [Config]: the field, what is wrong with it,
// and what would be right.
type ConfigError struct {
	Field  string
	Text   string
	Remedy string
}

// Error implements error.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("config: %s %s: %s", e.Field, e.Text, e.Remedy)
}

// executes refuses a client where all pods have the same configuration.
func (c Config) executes() error {
	if !c.ClientOnly {
		return nil
	}
	return fmt.Errorf("new engine: %w", &ConfigError{
		Field: "ClientOnly", Text: "is set where no other engine could execute anything", Remedy: "leave it out in memory and in simulations",
	})
}

// durationMax bounds every duration: beyond it arithmetic with instants would
// overflow.
const durationMax = 100 * 365 * 24 * time.Hour

// payloadLimitMax bounds PayloadLimit: larger values do not belong into a row.
const payloadLimitMax = 64 << 20

// payloadMemoryMin is the least PayloadMemory: with less, tasks only wait for each other.
const payloadMemoryMin = 1 << 20

// Validate returns every problem of c, joined; each is a [*ConfigError]. Zero
// fields are no problem: they take their defaults.
func (c Config) Validate() error {
	d := c.withDefaults()
	var problems []error
	refuse := func(bad bool, field, text, remedy string) {
		if bad {
			problems = append(problems, &ConfigError{Field: field, Text: text, Remedy: remedy})
		}
	}
	refuse(c.ClientOnly && c.Slots != 0, "Slots", fmt.Sprintf("is %d", c.Slots), "leave it out: with ClientOnly the engine executes nothing")
	refuse(c.ClientOnly && len(c.QueueSlots) > 0, "QueueSlots", "is set", "leave it out: with ClientOnly the engine serves no queue")
	text, remedy := migrations.SchemaProblem(d.Schema)
	refuse(text != "", "Schema", text, remedy)
	refuse(!plainText(d.PodName), "PodName", fmt.Sprintf("is %.300q", d.PodName), "use 1 to 255 bytes of printable characters")
	refuse(!c.ClientOnly && d.Slots < 1 || d.Slots > persistence.ClaimMax*10, "Slots", fmt.Sprintf("is %d", d.Slots), "use 1 to 10000")
	for queue, slots := range d.QueueSlots {
		refuse(slots < 1 || slots > persistence.ClaimMax*10, "QueueSlots", fmt.Sprintf("has %d for queue %q", slots, queue),
			"use 1 to 10000")
		refuse(workflow.CheckName(queue) != nil, "QueueSlots", fmt.Sprintf("has the queue %q", queue),
			"use letters, digits and . _ - / : up to 255 bytes")
	}
	refuse(d.ClaimBatch < 1 || d.ClaimBatch > persistence.ClaimMax, "ClaimBatch", fmt.Sprintf("is %d", d.ClaimBatch),
		fmt.Sprintf("use 1 to %d", persistence.ClaimMax))
	refuse(d.TenantLimit < 0, "TenantLimit", fmt.Sprintf("is %d", d.TenantLimit), "use 0 for none, or more")
	refuse(d.PoolSize < 3 || d.PoolSize > 64, "PoolSize", fmt.Sprintf("is %d", d.PoolSize), "use 3 to 64")
	refuse(d.MaxLost < 1 || d.MaxLost > 1000, "MaxLost", fmt.Sprintf("is %d", d.MaxLost), "use 1 to 1000")
	refuse(d.PayloadLimit < 1 || d.PayloadLimit > payloadLimitMax, "PayloadLimit", fmt.Sprintf("is %d bytes", d.PayloadLimit),
		"use up to 64 MiB; larger data belongs into a store of its own, with a reference here")
	refuse(d.PayloadMemory < payloadMemoryMin, "PayloadMemory", fmt.Sprintf("is %d bytes", d.PayloadMemory),
		"use 1 MiB (1048576) or more, about a quarter of the memory that the pod may use")
	refuse(d.IntakePending < 1, "IntakePending", fmt.Sprintf("is %d", d.IntakePending), "use 1 or more")
	refuse(!plainText(d.DefaultTenant), "DefaultTenant", fmt.Sprintf("is %q", d.DefaultTenant),
		"use 1 to 255 bytes of printable characters")
	problems = append(problems, d.validateTimes()...)
	refuse(d.DeadLetterRetention != 0 && (d.DeadLetterRetention < time.Minute || d.DeadLetterRetention > durationMax),
		"DeadLetterRetention", fmt.Sprintf("is %v", d.DeadLetterRetention), "use 0 to keep dead letters for ever, or a minute to 100 years")
	for _, r := range d.DeadReasons {
		_, err := ParseDeadReason(r.String())
		refuse(err != nil, "DeadReasons", fmt.Sprintf("has %v", r), "use the constants that begin with Dead, such as DeadPoison")
	}
	for _, f := range []struct {
		name string
		keep time.Duration
	}{{"Standard", d.Retention.Standard}, {"Short", d.Retention.Short}, {"Long", d.Retention.Long}} {
		refuse(f.keep != 0 && (f.keep < time.Minute || f.keep > durationMax), "Retention."+f.name, fmt.Sprintf("is %v", f.keep),
			"use 0 to keep runs for ever, or a minute to 100 years")
	}
	return errors.Join(problems...)
}

func (c Config) validateTimes() []error {
	var problems []error
	for _, f := range []struct {
		name     string
		value    time.Duration
		zeroFine bool
	}{
		{"Pulse", c.Pulse, false},
		{"Lease", c.Lease, false},
		{"StopGrace", c.StopGrace, false},
		{"CancelGrace", c.CancelGrace, false},
		{"Sweep", c.Sweep, false},
		{"SweepDegraded", c.SweepDegraded, false},
		{"LeaderPing", c.LeaderPing, false},
		{"LeaderSilence", c.LeaderSilence, false},
		{"LeaderTry", c.LeaderTry, false},
		{"AttemptTimeout", c.AttemptTimeout, true},
		{"InTxTimeout", c.InTxTimeout, false},
	} {
		if f.value < 0 || f.value > durationMax || f.value == 0 && !f.zeroFine {
			problems = append(problems, &ConfigError{f.name, fmt.Sprintf("is %v", f.value), "use a positive duration below 100 years"})
		}
	}
	if c.Lease < 3*c.Pulse {
		problems = append(problems, &ConfigError{
			"Lease", fmt.Sprintf("%v is less than three times Pulse (%v)", c.Lease, c.Pulse),
			"leave room for two lost renewals",
		})
	}
	if c.LeaderSilence < 2*c.LeaderPing {
		problems = append(problems, &ConfigError{
			"LeaderSilence", fmt.Sprintf("%v is less than twice LeaderPing (%v)", c.LeaderSilence, c.LeaderPing),
			"leave room for a lost ping",
		})
	}
	if err := workflow.CheckRetry(c.Retry.policy()); err != nil {
		problems = append(problems, &ConfigError{"Retry", err.Error(), "see the fields of Retry"})
	}
	return problems
}

// plainText reports whether text can name a tenant or a pod.
func plainText(text string) bool {
	return len(text) <= workflow.NameMax && utf8.ValidString(text) && strings.IndexFunc(text, unicode.IsControl) < 0
}

// parameterName is what a parameter of a session can be called.
var parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// misread says which part of an address the driver misread; "": none. The driver reads
// any text with a = in it as names and values, connects to the default host, and its
// error would show the text that was meant as a password.
func misread(config *pgx.ConnConfig) (problem, remedy string) {
	parts := maps.Clone(config.RuntimeParams)
	for name := range parts {
		if !parameterName.MatchString(name) {
			return "has a parameter of no possible name", "use the form postgres://user@host:5432/database"
		}
	}
	delete(parts, "application_name") // may be anything
	hosts := []string{config.Host}
	for _, other := range config.Fallbacks {
		hosts = append(hosts, other.Host)
	}
	parts["host"], parts["user"], parts["dbname"] = strings.Join(hosts, ","), config.User, config.Database
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if strings.Contains(parts[name], "://") {
			return "has a URL as the value of " + name, "give the URL alone"
		}
	}
	if slices.ContainsFunc(hosts, func(host string) bool { return strings.Index(host, "@") > 0 }) { // first it names a socket
		return "has an @ in its host", "write an @ in a name or a password as %40"
	}
	return "", ""
}
