package postgres

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/lifecycle"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/persistence/postgres/internal/pgerr"
	"github.com/troupe-dev/troupe/persistence/storetest"
)

// A value is to blame only if the database accepts the row without it, and refuses the row
// with it a second time.
func TestAValueIsBlamedOnlyAlone(t *testing.T) {
	t.Parallel()
	locked := errors.New("locked")
	for name, test := range map[string]struct{ bare, again, want error }{
		"the value":                         {nil, persistence.ErrBadRow, nil},
		"the schema":                        {persistence.ErrBadRow, nil, persistence.ErrUnavailable},
		"a cause that has gone":             {nil, nil, persistence.ErrUnavailable},
		"a lock hides it":                   {locked, nil, locked},
		"a lock hides it in the second try": {nil, locked, locked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := pgerr.Blamed(persistence.ErrBadRow, test.bare, func() error { return test.again })
			if test.want == nil {
				require.NoError(t, got)
				return
			}
			require.ErrorIs(t, got, test.want)
			require.NotErrorIs(t, got, persistence.ErrBadRow)
		})
	}
}

// Rows that are locked do not keep the store from finding the value that the database
// refuses.
func TestARefusedValueBesideAHold(t *testing.T) {
	t.Parallel()
	g := storetest.Diamond()
	k, pod := withCounters(t, g, "a", "b")
	k.start(g, "a", 1)
	k.start(g, "b", 2)
	running := k.claim(pod, 10)
	require.Len(t, running, 3)
	k.exec(`create function {schema}.picky() returns trigger language plpgsql as $$ begin
		if new.output = convert_to('"bad"', 'UTF8') then raise exception 'no' using errcode = '22000'; end if;
		return new;
	end $$`)
	k.exec(`create trigger picky before update on {schema}.tasks for each row execute function {schema}.picky()`)
	release := k.holdCounters("a")
	record := k.completion(pod, running...)
	bad := slices.IndexFunc(running, func(g persistence.Grant) bool { return g.Tenant == "b" })
	record.Transitions[bad].Output = []byte(`"bad"`)
	for i, answer := range k.send(record) {
		want := lifecycle.Moved
		switch {
		case i == bad:
			want = lifecycle.BadRow
		case running[i].Tenant == "a":
			want = lifecycle.Busy
		}
		require.Equal(t, want, answer, running[i].Tenant)
	}
	release()
	k.endRests()
	k.finish(pod)
	k.requireSound()
}
