package workflow

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"
)

// RunID identifies a run: a UUID version 7 (RFC 9562, section 5.7), made by
// the engine and never by a caller, so that runs sort by their start.
type RunID [16]byte

// errRunID is what ParseRunID returns for anything but a UUID.
var errRunID = errors.New("run id: want a UUID such as 0190c2f3-7a1b-7c3d-8e4f-0123456789ab")

// NewRunID makes an id from an instant (of the database's clock) and ten
// random bytes.
func NewRunID(at time.Time, random [10]byte) RunID {
	var id RunID
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
	copy(id[:6], ms[2:])
	copy(id[6:], random[:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// ParseRunID reads the text form that String writes.
func ParseRunID(text string) (RunID, error) {
	var id RunID
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return RunID{}, errRunID
	}
	digits := text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return RunID{}, errRunID
	}
	return id, nil
}

// String returns the id in the usual form of a UUID.
func (id RunID) String() string {
	text := make([]byte, 0, 36)
	for i, group := range [][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, group)
	}
	return string(text)
}

// IsZero reports whether id is the zero value, which names no run.
func (id RunID) IsZero() bool { return id == RunID{} }

// TaskID identifies one step of one run. Step is the index in the definition;
// tasks made at run time have indexes beyond it.
type TaskID struct {
	Run  RunID
	Step int32
}
