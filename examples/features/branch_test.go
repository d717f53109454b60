package features_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
)

// If looks at the output of one step and opens one of two branches. Everything
// on the other one is skipped; Maybe is how the branches merge again.
func TestBranch(t *testing.T) {
	amount := func(_ context.Context, cents int) (int, error) { return cents, nil }
	approve := func(_ context.Context, _, _ int) (string, error) { return "a person approved it", nil }
	book := func(_ context.Context, _, _ int) (string, error) { return "booked at once", nil }
	done := func(_ context.Context, _ int, approved, booked troupe.Opt[string]) (string, error) {
		return approved.Or("") + booked.Or(""), nil
	}
	w := troupe.Define("expenses", func(b *troupe.Builder[int]) troupe.StepRef[string] {
		cents := troupe.Step0(b, "amount", amount)
		large, small := troupe.If(cents, func(cents int) bool { return cents > 100_00 })
		approved := troupe.Step1(b, "approve", approve, cents, large)
		booked := troupe.Step1(b, "book", book, cents, small)
		return troupe.Step2(b, "done", done, troupe.Maybe(approved), troupe.Maybe(booked))
	})
	inMemory(t, troupe.Config{}, w, func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[int, string]) {
		large, err := handle.Run(t.Context(), 250_00)
		require.NoError(t, err)
		require.Equal(t, "a person approved it", large)

		small, err := handle.Run(t.Context(), 9_90)
		require.NoError(t, err)
		require.Equal(t, "booked at once", small)
	})
}

// Switch opens one branch of many. Conditions on the input are decided before
// the run is stored.
func TestSwitch(t *testing.T) {
	type parcel struct{ Country string }
	ship := func(with string) func(context.Context, parcel) (string, error) {
		return func(context.Context, parcel) (string, error) { return with, nil }
	}
	label := func(_ context.Context, _ parcel, home, near, far troupe.Opt[string]) (string, error) {
		return home.Or(near.Or(far.Or("?"))), nil
	}
	w := troupe.Define("parcel", func(b *troupe.Builder[parcel]) troupe.StepRef[string] {
		country := troupe.Switch(b.Input(), func(p parcel) string { return p.Country })
		home := troupe.Step0(b, "by-bicycle", ship("bicycle"), country.Case("AT"))
		near := country.Case("DE")
		rail := troupe.Step0(b, "by-rail", ship("rail"), near)
		far := troupe.Step0(b, "by-ship", ship("ship"), country.Default())
		return troupe.Step3(b, "label", label, troupe.Maybe(home), troupe.Maybe(rail), troupe.Maybe(far))
	})
	inMemory(t, troupe.Config{}, w, func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[parcel, string]) {
		for country, want := range map[string]string{"AT": "bicycle", "DE": "rail", "NZ": "ship"} {
			got, err := handle.Run(t.Context(), parcel{country})
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	})
}

// SkipIf leaves out one step. Its children are left out, too, unless they hold
// it by Maybe. Of several SkipIf on a step any one skips it.
func TestSkipIf(t *testing.T) {
	type user struct {
		Name    string
		Muted   bool
		Deleted bool
	}
	load := func(_ context.Context, u user) (user, error) { return u, nil }
	mail := func(_ context.Context, _, u user) (string, error) { return "dear " + u.Name, nil }
	report := func(_ context.Context, _ user, mailed troupe.Opt[string]) (string, error) {
		return mailed.Or("no mail was sent"), nil
	}
	w := troupe.Define("newsletter", func(b *troupe.Builder[user]) troupe.StepRef[string] {
		loaded := troupe.Step0(b, "load", load)
		mailed := troupe.Step1(b, "mail", mail, loaded,
			troupe.SkipIf(loaded, func(u user) bool { return u.Muted }),
			troupe.SkipIf(loaded, func(u user) bool { return u.Deleted }))
		return troupe.Step1(b, "report", report, troupe.Maybe(mailed), troupe.RunIfAllSkipped())
	})
	inMemory(t, troupe.Config{}, w, func(t *testing.T, _ *troupe.Engine, handle *troupe.Handle[user, string]) {
		for want, input := range map[string]user{
			"dear Ada":         {Name: "Ada"},
			"no mail was sent": {Name: "Bob", Deleted: true},
		} {
			got, err := handle.Run(t.Context(), input)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	})
}
