package archtest

// room says what a package may import. Entries are import paths; one that ends
// in /... includes what is below it. Test files may also import testImports.
type room struct {
	ours    []string // of this module, without the module's path
	std     []string // of the standard library; nil means all of it
	outside []string // of other modules
}

// pure is the part of the standard library in which the same input always
// gives the same output.
var pure = []string{
	"bytes", "cmp", "container/heap", "container/list", "crypto/sha256", "encoding/binary", "encoding/hex",
	"errors", "fmt", "hash", "hash/fnv", "io", "iter", "maps", "math", "math/bits", "slices", "sort", "strconv",
	"strings", "time", "unicode", "unicode/utf8",
}

// coded is pure with the type that a value must have to be an argument of SQL.
var coded = append([]string{"database/sql/driver"}, pure...)

const (
	pgx        = "github.com/jackc/pgx/v5/..."
	pglogrepl  = "github.com/jackc/pglogrepl"
	protoactor = "github.com/asynkron/protoactor-go/actor"
	protobuf   = "google.golang.org/protobuf/..."
	testify    = "github.com/stretchr/testify/..."
	goCmp      = "github.com/google/go-cmp/..."
	goYAML     = "go.yaml.in/yaml/v3"
	otel       = "go.opentelemetry.io/otel"
	promClient = "github.com/prometheus/client_golang/prometheus/..."
)

// rooms is the module's map: a package that is not in it fails the test, so
// that a new room is a decision which is written down. Keys that end in
// /... are for all packages below. Arrows point inward.
var rooms = map[string]room{
	"workflow":  {std: coded},
	"lifecycle": {std: coded, ours: []string{"workflow"}},
	"explain":   {std: pure, ours: []string{"workflow", "lifecycle"}},

	"messages": {outside: []string{protobuf}},
	"persistence": {
		std:  append([]string{"context", "encoding/json"}, pure...),
		ours: []string{"workflow", "lifecycle", "explain"},
	},
	"cluster": {
		std:  append([]string{"context"}, pure...),
		ours: []string{"workflow", "internal/clock"},
	},

	"persistence/snapshot": {std: pure, ours: []string{"workflow", "lifecycle", "persistence"}},
	"persistence/memory": {
		ours: []string{"workflow", "lifecycle", "explain", "persistence", "persistence/snapshot", "internal/clock"},
	},
	"persistence/postgres": {
		ours: []string{
			"workflow", "lifecycle", "explain", "persistence", "persistence/snapshot", "persistence/postgres/internal/...",
			"internal/clock", "internal/panics", "internal/wire",
		},
		outside: []string{pgx},
	},
	"persistence/postgres/internal/adaptive": {
		ours: []string{"workflow", "lifecycle", "persistence", "persistence/postgres/internal/registry"},
	},
	"persistence/postgres/internal/elements": {
		ours: []string{
			"workflow", "lifecycle", "persistence", "persistence/postgres/internal/pgerr", "persistence/postgres/internal/pgsql",
		},
		outside: []string{pgx},
	},
	"persistence/postgres/internal/inline": {
		ours: []string{
			"workflow", "lifecycle", "persistence", "persistence/postgres/internal/adaptive", "persistence/postgres/internal/pgsql",
		},
		outside: []string{pgx},
	},
	"persistence/postgres/internal/machines": {
		ours: []string{
			"workflow", "lifecycle", "persistence", "persistence/postgres/internal/pgerr", "persistence/postgres/internal/pgsql",
			"persistence/postgres/internal/registry",
		},
		outside: []string{pgx},
	},
	"persistence/postgres/internal/family": {
		ours: []string{
			"workflow", "lifecycle", "persistence", "persistence/postgres/internal/pgsql", "persistence/postgres/internal/readers",
		},
		outside: []string{pgx},
	},
	"persistence/postgres/internal/history": {
		ours:    []string{"workflow", "persistence", "persistence/postgres/internal/pgerr", "persistence/postgres/internal/pgsql"},
		outside: []string{pgx},
	},
	"persistence/postgres/internal/inbox": {
		ours:    []string{"workflow", "persistence", "persistence/postgres/internal/pgerr", "persistence/postgres/internal/pgsql"},
		outside: []string{pgx},
	},
	"persistence/postgres/internal/pgerr": {ours: []string{"lifecycle", "persistence", "internal/wire"}, outside: []string{pgx}},
	"persistence/postgres/internal/pgsql": {
		ours:    []string{"workflow", "lifecycle", "persistence", "persistence/postgres/internal/pgerr", "persistence/postgres/internal/sessions"},
		outside: []string{pgx},
	},
	"persistence/postgres/internal/places": {
		ours:    []string{"persistence/postgres/internal/pgerr", "persistence/postgres/internal/pgsql"},
		outside: []string{pgx},
	},
	"persistence/postgres/internal/quarantine": {
		ours: []string{
			"workflow", "persistence/postgres/internal/pgerr", "persistence/postgres/internal/pgsql", "persistence/postgres/internal/registry",
			"internal/clock",
		},
		outside: []string{pgx},
	},
	"persistence/postgres/internal/readers": {
		ours: []string{
			"workflow", "lifecycle", "explain", "persistence", "persistence/snapshot", "persistence/postgres/internal/pgerr",
			"persistence/postgres/internal/machines", "persistence/postgres/internal/pgsql", "persistence/postgres/internal/sessions",
			"internal/clock",
		},
		outside: []string{pgx},
	},
	"persistence/postgres/internal/registry": {
		ours:    []string{"workflow", "lifecycle", "persistence", "persistence/postgres/internal/pgerr", "persistence/postgres/internal/pgsql"},
		outside: []string{pgx},
	},
	"persistence/postgres/internal/requeue": {
		ours:    []string{"workflow", "lifecycle", "persistence", "persistence/postgres/internal/pgsql"},
		outside: []string{pgx},
	},
	"persistence/postgres/internal/sessions": {ours: []string{"persistence", "internal/clock", "internal/wire"}, outside: []string{pgx}},
	"persistence/postgres/internal/steptx": {
		ours: []string{
			"lifecycle", "persistence", "persistence/postgres/internal/pgerr", "persistence/postgres/internal/pgsql",
			"persistence/postgres/internal/sessions", "internal/clock", "internal/panics", "internal/wire",
		},
		outside: []string{pgx},
	},
	"persistence/postgres/audit": {ours: []string{"lifecycle"}, outside: []string{pgx}},
	"persistence/storetest": {
		ours:    []string{"workflow", "lifecycle", "explain", "persistence", "persistence/snapshot"},
		outside: []string{testify, goCmp},
	},
	"cluster/local": {ours: []string{"persistence", "cluster"}},
	"cluster/postgres": {
		ours:    []string{"workflow", "lifecycle", "persistence", "cluster", "internal/clock", "internal/wire"},
		outside: []string{pgx, pglogrepl},
	},
	"migrations": {outside: []string{pgx}},
	"actors": {
		ours: []string{
			"workflow", "lifecycle", "messages", "persistence", "cluster", "actors/internal/vitals", "internal/clock", "internal/panics",
		},
		outside: []string{protoactor, "github.com/asynkron/protoactor-go/eventstream", protobuf},
	},

	"actors/internal/vitals": {std: append([]string{"sync/atomic"}, pure...), ours: []string{"workflow", "persistence"}},

	".": {
		ours: []string{
			"workflow", "lifecycle", "explain", "messages", "persistence", "persistence/memory", "persistence/postgres",
			"cluster", "cluster/local", "cluster/postgres", "migrations", "actors", "internal/clock", "internal/host",
			"internal/fidelity", "internal/logqueue", "internal/panics", "internal/program",
		},
		outside: []string{protoactor, protobuf, pgx},
	},
	"internal/sim": {
		ours: []string{"workflow", "lifecycle", "messages", "persistence", "persistence/memory", "cluster", "actors", "internal/clock"},
		outside: []string{
			protoactor, "github.com/asynkron/protoactor-go/eventstream", "github.com/asynkron/protoactor-go/extensions",
			"github.com/orcaman/concurrent-map",
		},
	},
	"internal/sim/swarm": {
		ours: []string{"workflow", "lifecycle", "explain", "messages", "persistence", "persistence/memory", "persistence/snapshot", "cluster", "actors", "internal/sim"},
	},
	"internal/planted": {},
	"simtest": {
		ours: []string{
			".", "workflow", "lifecycle", "messages", "persistence", "persistence/memory", "cluster", "cluster/local",
			"actors", "internal/clock", "internal/host", "internal/sim/...", "persistence/snapshot",
		},
		outside: []string{protoactor, protobuf},
	},

	"statemachine": {ours: []string{".", "workflow", "lifecycle", "persistence", "actors", "internal/clock", "internal/program"}},

	"troupetest": {ours: []string{".", "migrations"}, outside: []string{pgx}},
	"observe/otel": {
		ours: []string{".", "actors"},
		outside: []string{
			otel + "/attribute", otel + "/codes", otel + "/metric", otel + "/propagation", otel + "/trace", // no SDK
		},
	},
	"observe/prometheus": {ours: []string{"actors"}, outside: []string{promClient}},

	"cmd/troupe/...": {
		ours: []string{"..."},
		outside: []string{
			pgx, protoactor, protobuf, "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term",
		},
	},
	"examples/service": {
		ours:    []string{".", "migrations", "observe/otel", "observe/prometheus", "troupetest"},
		outside: []string{pgx, promClient, otel + "/..."},
	},
	"examples/...": {
		ours:    []string{".", "actors", "messages", "migrations", "simtest", "statemachine", "troupetest"},
		outside: []string{protoactor, protobuf, pgx},
	},
	"bench/...": {ours: []string{"..."}, outside: []string{protoactor, protobuf, pgx}},

	"internal/acceptance":   {},
	"internal/archtest":     {},
	"internal/chaos":        {},
	"internal/clock":        {},
	"internal/fidelity":     {},
	"internal/host":         {ours: []string{"persistence", "actors"}},
	"internal/logqueue":     {ours: []string{"internal/clock"}},
	"internal/pgdev":        {outside: []string{pgx, "github.com/fergusstrange/embedded-postgres"}},
	"internal/panics":       {},
	"internal/program":      {ours: []string{"workflow", "lifecycle", "persistence", "actors", "internal/fidelity", "internal/panics"}},
	"internal/wire":         {ours: []string{"internal/clock", "internal/panics"}, outside: []string{pgx}},
	"internal/pgdev/pgtest": {ours: []string{"internal/pgdev"}, outside: []string{"github.com/testcontainers/testcontainers-go/..."}},
}

// testImports is what any test may import besides what its room may. Every
// room of ours is open to tests, except the commands.
var testImports = room{
	ours:    []string{"..."},
	outside: []string{testify, goCmp, goYAML, otel + "/...", pgx, pglogrepl, protoactor, protobuf},
}
