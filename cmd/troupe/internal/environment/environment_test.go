package environment_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/environment"
)

// Every variable of the table is read into the field that the table names.
func TestEverySettingWithAVariableIsRead(t *testing.T) {
	t.Parallel()
	for _, setting := range troupe.Settings() {
		field, ok := reflect.TypeFor[troupe.Config]().FieldByName(setting.Field)
		require.True(t, ok, "Config has no field %s", setting.Field)
		if setting.Env == "" {
			continue
		}
		text, want := example(t, field.Type)
		values, err := environment.Read([]string{setting.Env + "=" + text})
		require.NoError(t, err, setting.Env)
		require.Equal(t, want, reflect.ValueOf(values.Config).FieldByName(setting.Field).Interface(), setting.Env)
	}
}

func example(t *testing.T, kind reflect.Type) (text string, want any) {
	t.Helper()
	switch kind {
	case reflect.TypeFor[string]():
		return "text", "text"
	case reflect.TypeFor[int]():
		return "7", 7
	case reflect.TypeFor[time.Duration]():
		return "1m30s", 90 * time.Second
	case reflect.TypeFor[map[string]int]():
		return "default=10, gpu=1", map[string]int{"default": 10, "gpu": 1}
	case reflect.TypeFor[[]troupe.DeadReason]():
		return "poison, timed_out", []troupe.DeadReason{troupe.DeadPoison, troupe.DeadTimedOut}
	}
	t.Fatalf("no example of a %v: teach set and this test about it", kind)
	return "", nil
}

func TestReadTakesTheDatabaseAndIgnoresTheRest(t *testing.T) {
	t.Parallel()
	values, err := environment.Read([]string{
		"TROUPE_DATABASE_URL=postgres://h/d", "TROUPE_PG_BIN=/opt/pg", "HOME=/root", "TROUPE_SLOTS=", "PGHOST=h",
	})
	require.NoError(t, err)
	require.Equal(t, environment.Values{DatabaseURL: "postgres://h/d"}, values)
}

func TestReadReportsEveryProblem(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"TROUPE_SLOT=10":             "unknown variable TROUPE_SLOT: did you mean TROUPE_SLOTS?",
		"TROUPE_DATABASEURL=x":       "unknown variable TROUPE_DATABASEURL: did you mean TROUPE_DATABASE_URL?",
		"TROUPE_COLOR=never":         "unknown variable TROUPE_COLOR: unset it; docs/configuration.md lists those that are read",
		"TROUPE_SLOTS=many":          `TROUPE_SLOTS is "many": use a whole number`,
		"TROUPE_LEASE=15":            `TROUPE_LEASE is "15": use a duration such as 500ms, 5s or 1m30s`,
		"TROUPE_QUEUE_SLOTS=gpu":     `TROUPE_QUEUE_SLOTS is "gpu": use a list such as default=10,gpu=1`,
		"TROUPE_QUEUE_SLOTS=a=1,=2":  `TROUPE_QUEUE_SLOTS is "a=1,=2": use a list such as default=10,gpu=1`,
		"TROUPE_QUEUE_SLOTS=a=1,a=2": `TROUPE_QUEUE_SLOTS is "a=1,a=2": "a" is in it twice`,
		"TROUPE_DEAD_REASONS=poison,tired": `TROUPE_DEAD_REASONS is "poison,tired": there is no reason "tired": use one of attempts_exhausted, ` +
			"non_retryable, poison, unregistered, undecodable, timed_out",
	} {
		_, err := environment.Read([]string{entry})
		require.EqualError(t, err, want, entry)
	}
	_, err := environment.Read([]string{"TROUPE_SLOTS=x", "TROUPE_PULSE=x", "TROUPE_LEASEE=1s"})
	require.ErrorContains(t, err, "TROUPE_SLOTS")
	require.ErrorContains(t, err, "TROUPE_PULSE")
	require.ErrorContains(t, err, "TROUPE_LEASEE")
}
