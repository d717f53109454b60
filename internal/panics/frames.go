package panics

import (
	"reflect"
	"runtime"
	"strconv"
	"strings"
)

const (
	// framesMax bounds the calls that are told: the innermost say where it happened.
	framesMax = 16
	// framesRead bounds how much of the stack is looked through for them.
	framesRead = 256
)

// Frames returns the calls that led to the panic which is being recovered, one a line, the
// innermost first. It leaves out those of the engine, of its actors and of the Go runtime:
// what is left is the embedder's code and what that calls. "" means that there is none. A
// deferred function calls it, before or after recover.
func Frames() string {
	var pcs [framesRead]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	var lines []string
	panicked := false
	for more := true; more && len(lines) < framesMax; {
		var frame runtime.Frame
		frame, more = frames.Next()
		switch of := packageOf(frame.Function); {
		case !panicked: // the deferred functions are on top
			panicked = frame.Function == "runtime.gopanic"
		case isRuntime(of):
		case !isOwn(of):
			lines = append(lines, frame.Function+" ("+frame.File+":"+strconv.Itoa(frame.Line)+")")
		case len(lines) > 0: // the engine called the first of them
			more = false
		}
	}
	return strings.Join(lines, "\n")
}

// packageOf returns the path of the package that a function is of.
func packageOf(function string) string {
	function, _, _ = strings.Cut(function, "[") // type arguments
	name := strings.LastIndexByte(function, '/') + 1
	if dot := strings.IndexByte(function[name:], '.'); dot >= 0 {
		return function[:name+dot]
	}
	return function
}

func isRuntime(path string) bool {
	return path == "" || within(path, "runtime") || within(path, "internal/runtime")
}

// here is a type of this package, whose path tells that of the module.
type here struct{}

// module is the path of the engine's module.
var module = strings.TrimSuffix(reflect.TypeFor[here]().PkgPath(), "/internal/panics")

// isOwn reports whether a package is on the way from the engine to a step function, or
// from there to the engine.
func isOwn(path string) bool {
	if path == module || within(path, "github.com/asynkron/protoactor-go") {
		return true
	}
	for _, room := range []string{
		"actors", "internal/host", "internal/panics", "internal/program", "internal/sim", "persistence", "simtest",
	} {
		if within(path, module+"/"+room) {
			return true
		}
	}
	return false
}

// within reports whether a package is at a path or below it.
func within(path, above string) bool {
	return path == above || strings.HasPrefix(path, above+"/")
}
