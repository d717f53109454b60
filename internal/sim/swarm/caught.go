package swarm

import (
	"runtime"
	"strings"
)

// caught makes a panic of the engine, outside of its actors, a violation.
func (s *seed) caught() {
	r := recover()
	if r == nil {
		return
	}
	frames := runtime.CallersFrames(callers())
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "troupe-dev/troupe/") && !strings.HasSuffix(frame.Function, ".caught") {
			s.world.Fail("panic", "%v, in %s", r, frame.Function[strings.LastIndexByte(frame.Function, '/')+1:])
			return
		}
		if !more {
			s.world.Fail("panic", "%v", r)
			return
		}
	}
}

func callers() []uintptr {
	counters := make([]uintptr, 64)
	return counters[:runtime.Callers(3, counters)]
}
