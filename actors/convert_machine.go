package actors

import (
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
)

func machineGrant(g *persistence.MachineGrant) *messages.MachineGrant {
	if g == nil {
		return nil
	}
	m := &messages.MachineGrant{Version: g.Version, State: g.State, Taken: g.Taken, Arrived: g.Arrived, Started: g.Started}
	for i := range g.Entries {
		e := &g.Entries[i]
		m.Entries = append(m.Entries, &messages.MachineEntry{
			N: e.N, Kind: uint32(e.Kind), At: micros(e.At), Name: e.Name, Payload: e.Payload, Class: e.Class, Error: e.Error,
		})
	}
	return m
}

func machineOf(m *messages.MachineGrant) *persistence.MachineGrant {
	if m == nil {
		return nil
	}
	g := &persistence.MachineGrant{
		Version: m.GetVersion(), State: m.GetState(), Taken: m.GetTaken(), Arrived: m.GetArrived(), Started: m.GetStarted(),
	}
	for _, e := range m.GetEntries() {
		g.Entries = append(g.Entries, persistence.MachineEntry{
			N: e.GetN(), Kind: persistence.EntryKind(e.GetKind()), At: instantOfMicros(e.GetAt()), Name: e.GetName(), Payload: e.GetPayload(),
			Class: e.GetClass(), Error: e.GetError(),
		})
	}
	return g
}

// activation is what an activation has decided, in a report.
func activation(a *persistence.Activation) *messages.Activation {
	if a == nil {
		return nil
	}
	m := &messages.Activation{
		Taken: a.Taken, Heard: a.Heard, Version: a.Version, State: a.State, Definition: a.Definition[:], Cancel: a.Cancel,
	}
	for _, r := range a.Refused {
		m.Refused = append(m.Refused, &messages.RefusedSignal{Name: r.Name, Why: r.Why})
	}
	for _, s := range a.Start {
		m.Start = append(m.Start, &messages.Spawn{Step: s.Step, Input: s.Input, WakeAt: micros(s.WakeAt)})
	}
	return m
}

func activationOf(m *messages.Activation) *persistence.Activation {
	if m == nil {
		return nil
	}
	a := &persistence.Activation{
		Taken: m.GetTaken(), Heard: m.GetHeard(), Version: m.GetVersion(), State: m.GetState(), Cancel: m.GetCancel(),
	}
	copy(a.Definition[:], m.GetDefinition())
	for _, r := range m.GetRefused() {
		a.Refused = append(a.Refused, persistence.RefusedSignal{Name: r.GetName(), Why: r.GetWhy()})
	}
	for _, s := range m.GetStart() {
		a.Start = append(a.Start, persistence.Spawn{Step: s.GetStep(), Input: s.GetInput(), WakeAt: instantOfMicros(s.GetWakeAt())})
	}
	return a
}

// grantBytes is how many bytes of payloads a machine gets.
func grantBytes(m *messages.MachineGrant) (size int) {
	size = len(m.GetState())
	for _, e := range m.GetEntries() {
		size += len(e.GetPayload())
	}
	return size
}

// activationBytes is how many bytes of payloads an activation has.
func activationBytes(m *messages.Activation) (size int) {
	size = len(m.GetState())
	for _, s := range m.GetStart() {
		size += len(s.GetInput())
	}
	return size
}

// checkActivation returns why an activation cannot be stored.
func checkActivation(a *persistence.Activation, limit int) error {
	if len(a.State) > limit {
		return tooLarge("state of the machine", len(a.State), limit)
	}
	for _, s := range a.Start {
		if len(s.Input) > limit {
			return tooLarge("input of "+s.Step, len(s.Input), limit)
		}
	}
	return nil
}
