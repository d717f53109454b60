package fidelity_test

import (
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe/internal/fidelity"
)

type (
	hidden struct{ amount int } //nolint:unused // that is what it is for
	own    struct{ amount int }
	reader struct{ amount int } //nolint:unused // the same
	behind struct{ amount int } //nolint:unused // the same
	base   struct {
		ID   string
		note string //nolint:unused // the same
	}
	line struct {
		base

		Done chan int
		Next *line
	}
	left struct {
		F func() `json:"-"`
	}
	folded struct{ Part string }
)

// twins is a struct with two fields of the same JSON name, which go vet would refuse.
func twins() any {
	tag, number := reflect.StructTag(`json:"n"`), reflect.TypeFor[int]()
	return reflect.New(reflect.StructOf([]reflect.StructField{{Name: "A", Type: number, Tag: tag}, {Name: "B", Type: number, Tag: tag}})).Elem().Interface()
}

func (o own) MarshalJSON() ([]byte, error)   { return json.Marshal(o.amount) }
func (*reader) UnmarshalJSON([]byte) error   { return nil }
func (*behind) MarshalText() ([]byte, error) { return nil, nil }
func (f folded) MarshalText() ([]byte, error) {
	return []byte(f.Part[:1]), nil
}

func TestTypesThatLoseNothing(t *testing.T) {
	t.Parallel()
	for _, value := range []any{
		1, "text", true, 1.5,
		[]byte{1},
		struct{}{},
		[]int{},
		map[string]int{},
		map[int]string{},
		&base{},
		base{},
		left{},
		time.Time{},
		time.Second, &big.Int{},
		[]big.Int{},
		reader{},
		json.RawMessage{},
		[]any{},
		struct {
			sync.Mutex

			N int
		}{},
	} {
		require.Empty(t, fidelity.Losses(reflect.TypeOf(value)), "%T", value)
	}
}

func TestTypesThatLose(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value any
		text  string
	}{
		{hidden{}, "the value is a fidelity_test.hidden, which has no exported field: JSON keeps nothing of it: " +
			"export its fields, or give the type MarshalJSON and UnmarshalJSON"},
		{[]map[string]*hidden{}, "[][] is a fidelity_test.hidden, which has no exported field"},
		{&line{}, "Done is a chan int, which JSON cannot hold: leave it out with the tag `json:\"-\"`"},
		{struct{ On []func() }{}, "On[] is a func(), which JSON cannot hold"},
		{struct{ C complex128 }{}, "C is a complex128"},
		{map[float64]int{}, "the value has keys of type float64"},
		{twins(), `A and B have the same JSON name "n": JSON drops both`},
		{big.Int{}, "is a big.Int, of which JSON keeps nothing: only a pointer to it has the method that encodes it: use *big.Int"},
		{struct{ V behind }{}, "V is a fidelity_test.behind, of which JSON keeps nothing"},
	} {
		losses := fidelity.Losses(reflect.TypeOf(c.value))
		require.Len(t, losses, 1, "%T", c.value)
		require.ErrorContains(t, losses[0], c.text)
	}
}

// check encodes a value and checks it.
func check(t *testing.T, value any) error {
	t.Helper()
	encoded, err := json.Marshal(value)
	require.NoError(t, err)
	return fidelity.Check(value, encoded)
}

func TestValuesThatJSONAlters(t *testing.T) {
	t.Parallel()
	const bad, beyond = "caf\xe9", int64(1)<<53 + 1
	for _, c := range []struct {
		value any
		text  string
	}{
		{bad, "the value is text that is not UTF-8"},
		{base{ID: bad}, "ID is text that is not UTF-8"},
		{map[string]int{bad: 1}, `["caf\xe9"] has a key that is not UTF-8`},
		{map[string][]base{"a": {{}, {ID: bad}}}, `["a"][1].ID is text that is not UTF-8`},
		{struct{ V any }{map[string]any{"a": []any{1, bad}}}, `V["a"][1] is text that is not UTF-8`},
		{map[folded]int{{"ab"}: 1, {"ac"}: 2}, `["a"] are two entries`},
		{struct{ M any }{map[folded]int{{"ab"}: 1, {"ac"}: 2}}, `M["a"] are two entries`},
		{struct{ V any }{beyond}, "V is an integer beyond 2^53 in an any"},
		{struct{ V any }{-beyond}, "V is an integer beyond 2^53"},
		{struct{ V any }{uint64(math.MaxUint64)}, "V is an integer beyond 2^53"},
		{struct{ V any }{[]int64{1, beyond}}, "V[1] is an integer beyond 2^53"},
		{map[string]any{"b": beyond, "a": map[string]any{"c": beyond}}, `["a"]["c"] is an integer`},
		{struct{ V any }{struct{ N json.Number }{"9007199254740993"}}, "V.N is an integer beyond 2^53"},
		{struct{ V any }{json.RawMessage(`{"n": 9007199254740993}`)}, "V is an integer beyond 2^53"},
		{struct{ V any }{new(big.Int).Exp(big.NewInt(3), big.NewInt(50), nil)}, "V is an integer beyond 2^53"},
		{hidden{}, "the value is a fidelity_test.hidden, which has no exported field"},
		{struct{ V any }{hidden{}}, "V is a fidelity_test.hidden, which has no exported field"},
	} {
		require.ErrorContains(t, check(t, c.value), c.text, "%#v", c.value)
	}
}

func TestValuesThatJSONKeeps(t *testing.T) {
	t.Parallel()
	for _, value := range []any{
		"café", "\ufffd", `\ufffd`,
		[]byte{0xff},
		int64(math.MaxInt64),
		[]int64{math.MaxInt64},
		struct{ N uint64 }{math.MaxUint64},
		struct{ V any }{int64(1) << 53},
		struct{ V any }{int64(1) << 60},
		struct{ V any }{int64(math.MinInt64)},
		struct{ V any }{nil},
		struct{ V any }{1.5e300},
		struct{ V any }{"9007199254740993"},
		struct{ N json.Number }{"9007199254740993"},
		struct{ V any }{json.RawMessage(`"9007199254740993"`)},
		struct{ V any }{struct{ At time.Time }{time.Unix(1, 123456789)}},
		map[folded]int{{"a"}: 1, {"b"}: 2},
		map[string]any{"a": []any{1, "b", map[string]any{}}, "é": 1},
		struct{ R json.RawMessage }{json.RawMessage("\"\\ufffd\"")},
		struct{ V any }{[]byte{0xff}},
		struct{ E error }{},
		map[string]*base{"a": nil},
		struct{ *base }{},
	} {
		require.NoError(t, check(t, value), "%#v", value)
	}
}

func TestTheValueItselfIsAnAny(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, fidelity.CheckAny(int64(math.MaxInt64), nil), "the value is an integer beyond 2^53")
	require.ErrorContains(t, fidelity.CheckAny(struct{ N []int64 }{[]int64{math.MaxInt64}}, nil), "N[0] is an integer")
	require.NoError(t, fidelity.CheckAny(nil, []byte("null")))
	require.NoError(t, fidelity.CheckAny(map[string]any{"a": 1}, nil))
}

// plain has no text, no any and no map.
type plain struct {
	ID     int64
	Amount float64
	Parts  []int32
}

// order is what most payloads are like.
type order struct {
	ID, Customer string
	Lines        []struct {
		SKU    string
		Amount int64
	}
	At time.Time
}

// BenchmarkMarshal compares what package json takes with what the check adds.
func BenchmarkMarshal(b *testing.B) {
	for name, value := range map[string]any{
		"number": 42,
		"plain":  plain{1, 2, []int32{1, 2, 3}},
		"order": order{"o-1", "a customer with a name", []struct {
			SKU    string
			Amount int64
		}{{"sku-1", 1}, {"sku-2", 2}, {"sku-3", 3}}, time.Unix(1, 0)},
		"any": map[string]any{"id": "o-1", "lines": []any{map[string]any{"sku": "s", "n": 1}, map[string]any{"sku": "t", "n": 2}}},
	} {
		b.Run(name+"/json", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = json.Marshal(value)
			}
		})
		b.Run(name+"/check", func(b *testing.B) {
			b.ReportAllocs()
			encoded, _ := json.Marshal(value)
			for b.Loop() {
				if err := fidelity.Check(value, encoded); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
