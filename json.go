package troupe

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// payload is an input or an output in JSON: as it is if it is JSON, else an object
// with its bytes.
type payload []byte

// payloadBytes is the object in which bytes stand that are no JSON.
type payloadBytes struct {
	Base64 *string `json:"$base64"`
}

// MarshalJSON implements json.Marshaler. A payload that looks like the object for bytes
// is written as bytes, too: what is read is what was written.
func (p payload) MarshalJSON() ([]byte, error) {
	if json.Valid(p) && utf8.Valid(p) {
		if _, bytes := p.inBytes(); !bytes {
			return p, nil
		}
	}
	text := base64.StdEncoding.EncodeToString(p)
	return json.Marshal(payloadBytes{&text})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *payload) UnmarshalJSON(text []byte) error {
	encoded, bytes := payload(text).inBytes()
	if !bytes {
		*p = append(payload{}, text...)
		return nil
	}
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return fmt.Errorf("payload: $base64: %w", err)
	}
	*p = decoded
	return nil
}

// inBytes returns the bytes of an object that has nothing but them.
func (p payload) inBytes() (encoded string, bytes bool) {
	var object map[string]json.RawMessage
	var found payloadBytes
	if json.Unmarshal(p, &object) != nil || len(object) != 1 || object["$base64"] == nil {
		return "", false
	}
	if json.Unmarshal(p, &found) != nil || found.Base64 == nil {
		return "", false
	}
	return *found.Base64, true
}

// The forms in JSON of what has payloads: the fields as they are tagged, and the payload.
type (
	plainStep   StepStatus
	plainParent DeadParent
	plainDetail DeadLetterDetail
	plainEntry  MachineEntry
	plainPage   MachineHistory
	plainState  MachineStatus

	stepJSON struct {
		*plainStep

		Output payload `json:"output,omitzero"`
	}
	parentJSON struct {
		*plainParent

		Output payload `json:"output,omitzero"`
	}
	detailJSON struct {
		*plainDetail

		Input payload `json:"input,omitzero"`
	}
	entryJSON struct {
		*plainEntry

		Payload payload `json:"payload,omitzero"`
	}
	historyJSON struct {
		*plainPage

		BaseState payload `json:"base_state,omitzero"`
		Input     payload `json:"input,omitzero"`
		State     payload `json:"state,omitzero"`
	}
	machineJSON struct {
		*plainState

		State payload `json:"state,omitzero"`
	}
)

// MarshalJSON implements json.Marshaler; docs/json.md has the form.
func (s StepStatus) MarshalJSON() ([]byte, error) {
	return json.Marshal(stepJSON{(*plainStep)(&s), s.Output})
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *StepStatus) UnmarshalJSON(text []byte) error {
	form := stepJSON{plainStep: (*plainStep)(s)}
	err := json.Unmarshal(text, &form)
	s.Output = form.Output
	return err
}

// MarshalJSON implements json.Marshaler; docs/json.md has the form.
func (p DeadParent) MarshalJSON() ([]byte, error) {
	return json.Marshal(parentJSON{(*plainParent)(&p), p.Output})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *DeadParent) UnmarshalJSON(text []byte) error {
	form := parentJSON{plainParent: (*plainParent)(p)}
	err := json.Unmarshal(text, &form)
	p.Output = form.Output
	return err
}

// MarshalJSON implements json.Marshaler; docs/json.md has the form.
func (d DeadLetterDetail) MarshalJSON() ([]byte, error) {
	return json.Marshal(detailJSON{(*plainDetail)(&d), d.Input})
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *DeadLetterDetail) UnmarshalJSON(text []byte) error {
	form := detailJSON{plainDetail: (*plainDetail)(d)}
	err := json.Unmarshal(text, &form)
	d.Input = form.Input
	return err
}

// MarshalJSON implements json.Marshaler; docs/json.md has the form.
func (e MachineEntry) MarshalJSON() ([]byte, error) {
	return json.Marshal(entryJSON{(*plainEntry)(&e), e.Payload})
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *MachineEntry) UnmarshalJSON(text []byte) error {
	form := entryJSON{plainEntry: (*plainEntry)(e)}
	err := json.Unmarshal(text, &form)
	e.Payload = form.Payload
	return err
}

// MarshalJSON implements json.Marshaler; docs/json.md has the form.
func (h MachineHistory) MarshalJSON() ([]byte, error) {
	return json.Marshal(historyJSON{(*plainPage)(&h), notNil(h.BaseState), h.Input, notNil(h.State)})
}

// notNil returns a payload without bytes as none: nothing encodes a state as that.
func notNil(state []byte) payload {
	if len(state) == 0 {
		return nil
	}
	return state
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *MachineHistory) UnmarshalJSON(text []byte) error {
	form := historyJSON{plainPage: (*plainPage)(h)}
	err := json.Unmarshal(text, &form)
	h.BaseState, h.Input, h.State = form.BaseState, form.Input, form.State
	return err
}

// MarshalJSON implements json.Marshaler; docs/json.md has the form.
func (s MachineStatus) MarshalJSON() ([]byte, error) {
	return json.Marshal(machineJSON{(*plainState)(&s), notNil(s.State)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *MachineStatus) UnmarshalJSON(text []byte) error {
	form := machineJSON{plainState: (*plainState)(s)}
	err := json.Unmarshal(text, &form)
	s.State = form.State
	return err
}

// utc returns an instant as JSON has it: times of different servers compare as text.
func utc(at time.Time) time.Time {
	if at.IsZero() {
		return time.Time{}
	}
	return at.UTC()
}
