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
		if setting.Field == "DirectURL" {
			text, want = "host=h", "host=h"
		}
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

// The driver takes a URL with a = in it for keywords and values.
func TestWhatIsNoAddressOfAPostgreSQL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"jdbc:postgresql://h:5432/d":                   "it is a JDBC URL, which only Java reads: use the form postgres://user@host:5432/database",
		"JDBC:postgresql://h/d?user=u&password=geheim": "it is a JDBC URL",
		"jdbc:postgresql://u:geheim@h/d":               "it is a JDBC URL",
		"mysql://u:geheim@h/d?a=b":                     "it is a URL of mysql: use the form postgres://",
		"postgresql+asyncpg://u:geheim@h/d?a=b":        "it is a URL of postgresql+asyncpg: use the form postgres://",
		"Postgres://u:geheim@h/d":                      `it begins with "Postgres://": write it in small letters`,
		" postgres://u:geheim@h/d?a=b":                 `it begins with " postgres://": write it in small letters, without space before it`,
		"h/d":                                          "use the form postgres://",
		"postgres://h:port/d":                          "use the form postgres://",
	} {
		for _, name := range []string{"TROUPE_DATABASE_URL", "TROUPE_DIRECT_URL"} {
			_, err := environment.Read([]string{name + "=" + text})
			require.ErrorContains(t, err, name+": ", text)
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "geheim")
		}
	}
	for _, text := range []string{"postgres://u:p@h/d?sslmode=disable", "postgresql://h", "host=h dbname=d", "host=h password=a://b", "host=/run/postgresql"} {
		require.NoError(t, environment.CheckAddress(text), text)
	}
}

// What the driver would take for something else, on another server, is refused before
// it gets it. A server's error would show what was meant as a password.
func TestAnAddressThatIsTakenForSomethingElse(t *testing.T) {
	t.Parallel()
	const nothing = "it is neither a URL nor a list of keywords: use the form postgres://user@host:5432/database"
	for text, want := range map[string]string{
		"bob:hunter2@127.0.0.1/x?sslmode=disable":              nothing,
		"bob:hunter2@127.0.0.1/x":                              nothing,
		"postgres//bob:hunter2@h/d?sslmode=disable":            nothing,
		"postgres:/bob:hunter2@h/d?sslmode=disable":            nothing,
		"//bob:hunter2@h/d?sslmode=disable":                    nothing,
		"host=h bob:hunter2@h/d?sslmode=disable":               nothing,
		"host=h password=my hunter2 user=u":                    nothing,
		"host=h password='hunter2":                             nothing,
		"'postgres://bob:hunter2@h/d?sslmode=disable'":         "it begins with a quote: remove the quotes",
		`"postgres://bob:hunter2@h/d"`:                         "it begins with a quote: remove the quotes",
		` "host=h password=hunter2"`:                           "it begins with a quote: remove the quotes",
		"url=postgres://bob:hunter2@h/d?sslmode=disable":       "it has a URL as the value of url: give the URL alone",
		"export TROUPE_DATABASE_URL=postgres://bob:hunter2@h/": nothing,
		"host=postgres://bob:hunter2@h/d":                      "it has a URL as the value of host: give the URL alone",
		"dbname=postgres://bob:hunter2@h/d":                    "it has a URL as the value of dbname: give the URL alone",
		"user=postgres://bob:hunter2@h/d":                      "it has a URL as the value of user: give the URL alone",
		"host=bob:hunter2@h":                                   "its host has an @ in it",
		"host=h,bob:hunter2@h":                                 "its host has an @ in it",
		"postgres://bob:my@hunter2@h/d":                        "it has more than one @ before its host: write an @ in a name or a password as %40",
		"postgres://bob:my@hunter2@h:port/d":                   "write an @ in a name or a password as %40",
		"postgres://bob@x:hunter2@h/d":                         "write an @ in a name or a password as %40",
		"postgres://bob:5432/hunter2@h/d":                      "it has an @ after its host: write a / in a name or a password as %2F",
		"postgres://bob:5432?hunter2@h/d=x":                    "it has an @ in the name of a parameter: write a ? in a name or a password as %3F",
		"postgres://h/d?host=postgres://bob:hunter2@h/d":       "it has a URL as the value of host: give the URL alone",
	} {
		err := environment.CheckAddress(text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "hunter2", text)
		require.NotContains(t, err.Error(), "bob", text)
	}
	for _, text := range []string{
		"postgres://bob%40x:hun%40ter2@h/d", "postgres://a:1,b:2/d", "postgres://bob:p@a,b/d?options=-c%20x.y%3D1", "postgres:///d?host=/run",
		"postgres://h/d?user=bob@server&TimeZone=UTC", " host = h  password = 'a b\\' c'  user='' ", `host=h password=a\ b`, "host=h password=",
		"host=h search_path=a,b options='-c a.b=1 -c c=d' application_name=https://shop", "host=h password='x'user=u", "host=h my.parameter=1",
	} {
		require.NoError(t, environment.CheckAddress(text), text)
	}
}

// What no engine could work with is told by the name of the variable.
func TestValuesAreValidatedByTheirNames(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"TROUPE_SLOTS=-1":                  "TROUPE_SLOTS is -1: use 1 to 10000",
		"TROUPE_QUEUE_SLOTS=gpu=0":         `TROUPE_QUEUE_SLOTS has 0 for queue "gpu": use 1 to 10000`,
		"TROUPE_SCHEMA=A b":                `TROUPE_SCHEMA "A b" is not a plain name: use up to 40 lower-case letters, digits and underscores`,
		"TROUPE_POOL_SIZE=1":               "TROUPE_POOL_SIZE is 1: use 3 to 64",
		"TROUPE_SWEEP=-1s":                 "TROUPE_SWEEP is -1s: use a positive duration below 100 years",
		"TROUPE_PULSE=1m":                  "TROUPE_LEASE 15s is less than three times TROUPE_PULSE (1m0s): leave room for two lost renewals",
		"TROUPE_LEADER_PING=1m":            "TROUPE_LEADER_SILENCE 2.5s is less than twice TROUPE_LEADER_PING (1m0s): leave room for a lost ping",
		"TROUPE_DEAD_LETTER_RETENTION=-1s": "TROUPE_DEAD_LETTER_RETENTION is -1s: use 0 to keep dead letters for ever, or a minute to 100 years",
	} {
		values, err := environment.Read([]string{entry})
		require.NoError(t, err, entry)
		require.EqualError(t, values.Validate(), want, entry)
	}
	values, err := environment.Read([]string{"TROUPE_SLOTS=-1", "TROUPE_MAX_LOST=-1"})
	require.NoError(t, err)
	require.ErrorContains(t, values.Validate(), "TROUPE_SLOTS is -1")
	require.ErrorContains(t, values.Validate(), "TROUPE_MAX_LOST is -1")
	require.NoError(t, environment.Values{}.Validate())
}
