package server

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// What /proc says; on systems without it figures that need it are left out.

// serverCPU returns what all processes of the server have used. The parent of a
// session's process is the postmaster, which has waited for all that ended.
func serverCPU(session int) time.Duration {
	postmaster := processTimes(session).parent
	if postmaster <= 1 {
		return 0
	}
	main := processTimes(postmaster)
	total := main.own + main.ended
	paths, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0
	}
	for _, path := range paths {
		id, err := strconv.Atoi(filepath.Base(path))
		if p := processTimes(id); err == nil && p.parent == postmaster {
			total += p.own
		}
	}
	return total
}

func ownCPU() time.Duration { return processTimes(os.Getpid()).own }

// process is what /proc says about one; zero: nothing.
type process struct {
	parent     int
	own, ended time.Duration // CPU of itself, and of children that it waited for
}

func processTimes(id int) process {
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs on Linux
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return process{}
	}
	// The name, in parentheses, may contain anything.
	words := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const parent, user, system, endedUser, endedSystem = 1, 11, 12, 13, 14
	if len(words) <= endedSystem {
		return process{}
	}
	number := func(at int) int64 {
		n, err := strconv.ParseInt(words[at], 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return process{
		parent: int(number(parent)),
		own:    time.Duration(number(user)+number(system)) * tick,
		ended:  time.Duration(number(endedUser)+number(endedSystem)) * tick,
	}
}

// ResetPeak makes the peak of this process's memory start again from its
// present size.
func ResetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // where it cannot be reset, the peak is that since the start
}

// PeakMB is the largest resident size of this process since ResetPeak; 0: not
// known.
func PeakMB() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil {
			return kib / 1024
		}
	}
	return 0
}
