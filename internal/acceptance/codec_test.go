package acceptance

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/messages"
)

// box encrypts with AES-GCM and a random nonce: equal plain bytes give other bytes each
// time. What it was sealed for has to be the same when it is opened.
func box(key string) cipher.AEAD {
	digest := sha256.Sum256([]byte(key))
	block, err := aes.NewCipher(digest[:])
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return aead
}

func seal(aead cipher.AEAD, plain []byte, what string) []byte {
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	return aead.Seal(nonce, nonce, plain, []byte(what))
}

func unseal(aead cipher.AEAD, data []byte, what string) ([]byte, error) {
	n := aead.NonceSize()
	if len(data) < n {
		return nil, errors.New("it was not sealed")
	}
	return aead.Open(nil, data[:n], data[n:], []byte(what))
}

// sealed encrypts each payload under the key of its tenant, for its place alone.
type sealed struct{ below troupe.Codec }

var errNotTold = errors.New("the codec is not told which payload it is")

func (s sealed) Plain() troupe.Codec           { return s.below }
func (sealed) Marshal(any) ([]byte, error)     { return nil, errNotTold }
func (sealed) Unmarshal(_ []byte, _ any) error { return errNotTold }

func placeOf(p troupe.PayloadPlace) string {
	return fmt.Sprintf("%s/%s/%s", p.Workflow, p.Step, p.Kind)
}

func (s sealed) MarshalFor(p troupe.PayloadPlace, value any) ([]byte, error) {
	plain, err := s.below.Marshal(value)
	if err != nil {
		return nil, err
	}
	return seal(box(p.Tenant), plain, placeOf(p)), nil
}

func (s sealed) UnmarshalFor(p troupe.PayloadPlace, data []byte, target any) error {
	plain, err := unseal(box(p.Tenant), data, placeOf(p))
	if err != nil {
		return fmt.Errorf("open %s: %w", placeOf(p), err)
	}
	return s.below.Unmarshal(plain, target)
}

// boxed encrypts all payloads in the same way, and embeds JSON.
type boxed struct {
	troupe.JSON

	aead cipher.AEAD
}

func (b boxed) Marshal(value any) ([]byte, error) {
	plain, err := b.JSON.Marshal(value)
	return seal(b.aead, plain, ""), err
}

func (b boxed) Unmarshal(data []byte, target any) error {
	plain, err := unseal(b.aead, data, "")
	if err != nil {
		return err
	}
	return b.JSON.Unmarshal(plain, target)
}

// noisy gives equal values different bytes, and does not say how to compare them.
type noisy struct{ boxed boxed }

func (n noisy) Marshal(value any) ([]byte, error)       { return n.boxed.Marshal(value) }
func (n noisy) Unmarshal(data []byte, target any) error { return n.boxed.Unmarshal(data, target) }

// indented gives equal values the same bytes, which are not those of JSON.
type indented struct{}

func (indented) Marshal(value any) ([]byte, error)       { return json.MarshalIndent(value, "", " ") }
func (indented) Unmarshal(data []byte, target any) error { return json.Unmarshal(data, target) }

func coded(codec troupe.Codec) func(*troupe.Config) {
	return func(c *troupe.Config) { c.Codec = codec }
}

// parcel is weigh → (heavy or light), where weigh fails once and continues from its
// progress. With "broken" in the name it fails for good.
func parcel() *troupe.Workflow[string, string] {
	return troupe.Define("parcel", func(b *troupe.Builder[string]) troupe.StepRef[string] {
		weigh := troupe.Step0(b, "weigh", func(ctx context.Context, in string) (int, error) {
			if half, ok := troupe.Progress[int](ctx); ok {
				return half + len(in), nil
			}
			if err := troupe.Heartbeat(ctx, 100); err != nil {
				return 0, err
			}
			return 0, errBusy
		}, steady(2))
		heavy, light := troupe.If(weigh, func(n int) bool { return n > 105 })
		pack := func(_ context.Context, in string, n int) (string, error) {
			if in == "broken" {
				return "", errBusy
			}
			return fmt.Sprintf("%s of %d", in, n), nil
		}
		big := troupe.Step1(b, "heavy", pack, weigh, heavy)
		small := troupe.Step1(b, "light", pack, weigh, light)
		b.OnFailure(func(ctx context.Context, in string, _ []*troupe.StepError) error {
			n, err := troupe.Completed(ctx, weigh)
			if err == nil && n != 100+len(in) {
				err = fmt.Errorf("%d was weighed", n)
			}
			return err
		})
		return troupe.Step2(b, "label", func(_ context.Context, _ string, one, other troupe.Opt[string]) (string, error) {
			return one.Or(other.Or("")), nil
		}, troupe.Maybe(big), troupe.Maybe(small))
	})
}

// A codec that encrypts with a random nonce, under each tenant's own key and bound to
// workflow, step and kind, decodes whatever it has encoded, and keys compare what is
// encrypted.
func TestAnEncryptingCodecIsToldEachPayload(t *testing.T) {
	virtual(t, func(t *testing.T) {
		engine, handle := start(t, parcel(), coded(sealed{troupe.JSON{}}))
		first := begin(t, handle, "book", troupe.Tenant("a"), troupe.Key("k"))
		out, err := first.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "book of 104", out)
		require.Equal(t, "completed weigh=completed heavy=skipped light=completed label=completed", states(t, first))
		out, err = handle.Get("a", first.ID()).Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "book of 104", out)

		again := begin(t, handle, "book", troupe.Tenant("a"), troupe.Key("k"))
		require.True(t, again.Existing(), "the plain input is the same")
		require.Equal(t, first.ID(), again.ID())
		_, err = handle.RunNoWait(t.Context(), "cook", troupe.Tenant("a"), troupe.Key("k"))
		require.ErrorIs(t, err, troupe.ErrKeyConflict)
		other := begin(t, handle, "book", troupe.Tenant("b"), troupe.Key("k"))
		require.False(t, other.Existing())

		_, err = begin(t, handle, "broken", troupe.Tenant("a")).Await(t.Context())
		require.ErrorContains(t, err, "busy")
		letters, err := engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{Tenant: "a"})
		require.NoError(t, err)
		require.Len(t, letters.Letters, 1, "the failure handler has read what was weighed")
		requeued, err := engine.DeadLetters().Requeue(t.Context(), "a", letters.Letters[0].ID, troupe.RequeueOptions{Input: "hammer"})
		require.NoError(t, err)
		out, err = handle.Get("a", requeued.Run).Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "hammer of 106", out)
	})
}

// What a requeued run takes over is decoded as what it was encoded as.
func TestAnEncryptingCodecReadsWhatIsTakenOver(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := &shop{}
		engine, handle := start(t, s.workflow(), coded(sealed{troupe.JSON{}}))
		_, err := begin(t, handle, "it", troupe.Tenant("a")).Await(t.Context())
		require.ErrorIs(t, err, troupe.ErrRunFailed)
		letters, err := engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{Tenant: "a"})
		require.NoError(t, err)
		s.mended.Store(true)
		requeued, err := engine.DeadLetters().Requeue(t.Context(), "a", letters.Letters[0].ID, troupe.RequeueOptions{})
		require.NoError(t, err)
		out, err := handle.Get("a", requeued.Run).Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "it charged shipped", out)
	})
}

// The input of a message is encoded by its sender: it is compared as the inputs of
// calls are.
func TestAnEncryptedMessageHasTheKeyOfACall(t *testing.T) {
	virtual(t, func(t *testing.T) {
		codec := sealed{troupe.JSON{}}
		engine, handle := start(t, single(number), coded(codec))
		input, err := codec.MarshalFor(troupe.PayloadPlace{Tenant: "a", Workflow: "single", Kind: troupe.PayloadInput}, "in")
		require.NoError(t, err)
		answer, err := engine.System().Root.RequestFuture(engine.PID(), &messages.TriggerRun{
			Workflow: "single", Tenant: "a", Key: "k", Input: input,
		}, time.Minute).Result()
		require.NoError(t, err)
		require.IsType(t, &messages.RunTriggered{}, answer)
		run := begin(t, handle, "in", troupe.Tenant("a"), troupe.Key("k"))
		require.True(t, run.Existing())
		_, err = handle.RunNoWait(t.Context(), "other", troupe.Tenant("a"), troupe.Key("k"))
		require.ErrorIs(t, err, troupe.ErrKeyConflict)
	})
}

func TestACodecThatEmbedsJSONKeepsKeysWorking(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, parcel(), coded(boxed{aead: box("all")}))
		first := begin(t, handle, "book", troupe.Key("k"))
		out, err := first.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "book of 104", out)
		require.Equal(t, first.ID(), begin(t, handle, "book", troupe.Key("k")).ID())
		_, err = handle.RunNoWait(t.Context(), "cook", troupe.Key("k"))
		require.ErrorIs(t, err, troupe.ErrKeyConflict)
	})
}

// Nothing can tell whether two inputs are equal: that is said where a key is given, and
// not when it is used again.
func TestACodecWhoseBytesVaryIsToldToSayWhatIsBelow(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, single(number), coded(noisy{boxed{aead: box("all")}}))
		_, err := handle.Run(t.Context(), "in")
		require.NoError(t, err)
		_, err = handle.RunNoWait(t.Context(), "in", troupe.Key("k"))
		var refused *troupe.TriggerError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, []any{troupe.BadInput, "key"}, []any{refused.Code, refused.Field})
		require.ErrorContains(t, err, "give it the method Plain")
	})
}

func TestACodecWhoseBytesDoNotVaryNeedsNothingElse(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, handle := start(t, single(number), coded(indented{}))
		first := begin(t, handle, "in", troupe.Key("k"))
		require.Equal(t, first.ID(), begin(t, handle, "in", troupe.Key("k")).ID())
		_, err := handle.RunNoWait(t.Context(), "other", troupe.Key("k"))
		require.ErrorIs(t, err, troupe.ErrKeyConflict)
	})
}
