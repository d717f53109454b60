package sim

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// The history of a world is hashed as it goes (FNV-1a), so that two runs of a
// seed can be compared; the last lines are kept to be read.
const (
	hashStart = 14695981039346656037
	hashPrime = 1099511628211
)

func hashText(h uint64, text string) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * hashPrime
	}
	return (h ^ 0xff) * hashPrime
}

func hashNumber(h, n uint64) uint64 {
	for range 8 {
		h = (h ^ n&0xff) * hashPrime
		n >>= 8
	}
	return h
}

// mix scrambles two numbers into one (the finalizer of splitmix64).
func mix(a, b uint64) uint64 {
	x := a + 0x9e3779b97f4a7c15*(b|1)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Line is one line of a history.
type Line struct {
	Step  int
	At    time.Duration // since the start
	Kind  string        // e.g. "message", "store", "crash"
	Where string        // pod and actor
	What  string
}

// String returns the line as people read it.
func (l Line) String() string {
	return fmt.Sprintf("%7d %12s  %-8s %-34s %s", l.Step, l.At, l.Kind, l.Where, l.What)
}

// note adds a line to the history.
func (w *World) note(kind, where, what string) {
	w.hash = hashText(hashText(hashText(hashNumber(w.hash, uint64(w.Elapsed())), kind), where), what)
	if w.options.Trace != nil {
		w.options.Trace(Line{Step: w.steps, At: w.Elapsed(), Kind: kind, Where: where, What: what})
	}
}

// noteDelivery is note for messages, which are most of a history.
func (w *World) noteDelivery(b *box, message any) {
	if e, ok := message.(*actor.MessageEnvelope); ok {
		message = e.Message
	}
	of := reflect.TypeOf(message)
	typed, ok := w.lab.types[of]
	if !ok {
		name := strings.TrimPrefix(strings.TrimPrefix(of.String(), "*"), "messages.")
		typed = messageType{name: strings.TrimPrefix(name, "actors."), hash: hashText(hashStart, name)}
		w.lab.types[of] = typed
	}
	w.hash = hashNumber(hashNumber(hashNumber(w.hash, uint64(w.Elapsed())), b.name), typed.hash)
	if w.options.Trace != nil {
		w.options.Trace(Line{Step: w.steps, At: w.Elapsed(), Kind: "message", Where: b.pod.Name + " " + b.id, What: typed.name})
	}
}

// messageType is what the history calls a Go type.
type messageType struct {
	name string
	hash uint64
}
