package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// What waits is shown by queue, by tenant, and what no living pod has.
func TestQueuesShowWhatWaits(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, printQueues(
		&out,
		[]troupe.QueueStatus{
			{Name: "default", Ready: 10000, More: true, OldestReady: 72 * time.Second, Running: 8, Tenants: []troupe.TenantPlace{
				{Tenant: "acme", Continuing: 3, New: 900}, {Tenant: "\x1b[2Jevil", New: 1},
			}},
			{Name: "gpu"},
		},
		[]troupe.ParkedWork{{Workflow: "orders", Step: "charge", Handler: "0123456789ab", Queue: "default", Tasks: 2, Since: time.Unix(0, 0)}},
	))
	require.Equal(t, `QUEUE    READY   OLDEST    RUNNING
default  10000+  1 m 12 s  8
gpu      0       -         0

QUEUE    TENANT       TURNS  TURNS OF NEW RUNS
default  acme         3      900
default  \x1b[2Jevil  0      1

NO LIVING POD HAS  STEP    HANDLER       QUEUE    TASKS  SINCE
orders             charge  0123456789ab  default  2      1970-01-01T00:00:00Z
`, out.String())
}

func TestLeasesAreTold(t *testing.T) {
	t.Parallel()
	require.Equal(t, "12 s", leaseText(12*time.Second))
	require.Equal(t, "over for 3 s", leaseText(-3*time.Second))
}

// A page that is short was not searched for to the end.
func TestAShortPageSaysHowFarItWasSearched(t *testing.T) {
	t.Parallel()
	next, err := troupe.ParseRunID("0190c2f3-7a1b-7c3d-8e4f-0123456789ab")
	require.NoError(t, err)
	for limit, want := range map[int]string{
		0: "more: --before 0190c2f3-7a1b-7c3d-8e4f-0123456789ab\n",
		5: "searched back to 2024-07-17T23:07:34Z; more: --before 0190c2f3-7a1b-7c3d-8e4f-0123456789ab\n",
	} {
		l := listFlags{filter: troupe.Filter{Limit: limit}}
		var out strings.Builder
		require.NoError(t, l.more(&out, &troupe.RunPage{Next: next}))
		require.Equal(t, want, out.String())
	}
}
