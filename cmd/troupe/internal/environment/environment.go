package environment

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe"
)

const prefix = "TROUPE_"

// DatabaseURL names the variable with the connection string.
const DatabaseURL = prefix + "DATABASE_URL"

// directURL names that of troupe.Config.DirectURL.
const directURL = prefix + "DIRECT_URL"

// meantMax is how many letters a name may be away from the one that was meant.
const meantMax = 3

// others are the variables of this project that are no fields of
// troupe.Config.
var others = []string{
	DatabaseURL,
	prefix + "PG_BIN",        // where a private server's binaries are
	prefix + "TEST_POSTGRES", // how tests get a server
	prefix + "TEST_IMAGE",    // of their container
}

// Values is what the environment says.
type Values struct {
	DatabaseURL string
	Config      troupe.Config
}

// Read reads a list of name=value pairs, as os.Environ returns it. Empty
// variables count as unset. All problems are reported at once.
func Read(environ []string) (Values, error) {
	given := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, prefix) && value != "" {
			given[name] = value
		}
	}
	values := Values{DatabaseURL: given[DatabaseURL]}
	known := slices.Clone(others)
	var problems []error
	for _, setting := range troupe.Settings() {
		if setting.Env == "" {
			continue
		}
		known = append(known, setting.Env)
		text, ok := given[setting.Env]
		if !ok {
			continue
		}
		if err := set(reflect.ValueOf(&values.Config).Elem().FieldByName(setting.Field), text); err != nil {
			problems = append(problems, fmt.Errorf("%s is %q: %w", setting.Env, text, err))
		}
	}
	for _, name := range []string{DatabaseURL, directURL} {
		if text, ok := given[name]; ok {
			if err := CheckAddress(text); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", name, err))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, name) {
			problems = append(problems, fmt.Errorf("unknown variable %s: %s", name, instead(name, known)))
		}
	}
	return values, errors.Join(problems...)
}

// instead is the remedy for an unknown name: the known one that was meant, or
// where all of them are.
func instead(name string, known []string) string {
	if meant := nearest(name, known); distance(name, meant) <= meantMax {
		return "did you mean " + meant + "?"
	}
	return "unset it; docs/configuration.md lists those that are read"
}

// set gives a field of Config the value that a text means for its type.
func set(field reflect.Value, text string) error {
	switch current := field.Interface().(type) {
	case string:
		field.SetString(text)
	case int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return errors.New("use a whole number")
		}
		field.SetInt(int64(n))
	case time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return errors.New("use a duration such as 500ms, 5s or 1m30s")
		}
		field.SetInt(int64(d))
	case map[string]int:
		counts, err := parseCounts(text)
		if err != nil {
			return err
		}
		field.Set(reflect.ValueOf(counts))
	case []troupe.DeadReason:
		reasons, err := parseReasons(text)
		if err != nil {
			return err
		}
		field.Set(reflect.ValueOf(reasons))
	default:
		return fmt.Errorf("a %T cannot be read from the environment", current)
	}
	return nil
}

// parseCounts reads a list like default=10,gpu=1.
func parseCounts(text string) (map[string]int, error) {
	counts := map[string]int{}
	for entry := range strings.SplitSeq(text, ",") {
		name, count, ok := strings.Cut(strings.TrimSpace(entry), "=")
		n, err := strconv.Atoi(count)
		if !ok || err != nil || name == "" {
			return nil, errors.New("use a list such as default=10,gpu=1")
		}
		if _, twice := counts[name]; twice {
			return nil, fmt.Errorf("%q is in it twice", name)
		}
		counts[name] = n
	}
	return counts, nil
}

// parseReasons reads a list like poison,timed_out.
func parseReasons(text string) ([]troupe.DeadReason, error) {
	var reasons []troupe.DeadReason
	for name := range strings.SplitSeq(text, ",") {
		reason, err := troupe.ParseDeadReason(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, reason)
	}
	return reasons, nil
}
