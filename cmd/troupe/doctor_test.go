package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/cmd/troupe/internal/doctor"
	"github.com/troupe-dev/troupe/internal/pgdev/pgtest"
)

func TestDoctorSaysWhatIsWrongAndExitsWithOne(t *testing.T) {
	t.Parallel()
	environ := []string{"TROUPE_DATABASE_URL=" + pgtest.Database(t)}
	code, out, problem := call(environ, "doctor")
	require.Equal(t, exitFailed, code, "the tests' server does without fsync, and there are no tables")
	require.Contains(t, out, "problem  schema: check schema troupe: the schema is not up to date")
	require.Contains(t, out, "\n         run troupe migrate up\n")
	require.Regexp(t, `\n\d+ checks, \d+ problems?, \d+ warnings?\n$`, out)
	require.Equal(t, "troupe: there are problems\n", problem)

	code, out, _ = call(environ, "doctor", "--json")
	require.Equal(t, exitFailed, code)
	var report doctor.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Contains(t, report.Server, "PostgreSQL ")
	require.NotZero(t, report.Problems())

	code, _, problem = call(environ, "doctor", "--deep", "--deep-timeout", "-1s")
	require.Equal(t, exitUsage, code)
	require.Contains(t, problem, "use a duration above 0")
	code, _, problem = call([]string{"TROUPE_DATABASE_URL=postgres://u:geheim@127.0.0.1:1/b"}, "doctor")
	require.Equal(t, exitFailed, code)
	require.NotContains(t, problem, "geheim")
	require.Equal(t, 1, strings.Count(problem, "\n"), problem)
}
