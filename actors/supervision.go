package actors

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/lifecycle"
)

// supervision is embedded by every actor that has children. protoactor asks
// the parent before anything else, on the parent's own goroutine, so the
// history of failures is a plain field.
type supervision struct {
	base
	failures map[string][]time.Time // by child
	off      bool                   // the parent stops: children are not restarted
	// stops reports whether a child was told to stop: a restart on top of that
	// would let it live on. nil: it is only told to by off.
	stops func(child string) bool
	// escalate is called when a child has used up its restarts; nil: the
	// failure becomes the parent's own.
	escalate func(child string, reason any)
}

// HandleFailure implements protoactor's SupervisorStrategy: the child is
// suspended until one of the directives is carried out.
func (s *supervision) HandleFailure(
	_ *System, parent supervisor, child *PID, _ *restartStatistics, reason, message any,
) {
	name := lastName(child)
	member := memberNamed(name)
	if s.ends(name) || member.restart == stopOnFailure {
		s.note(name, lifecycle.Stop, 0, reason)
		parent.StopChildren(child)
		return
	}
	if s.failures == nil {
		s.failures = map[string][]time.Time{}
	}
	decision := lifecycle.DecideRestart(member.intensity, s.failures[name], s.rt.now(), reason)
	s.failures[name] = decision.Kept
	s.note(name, decision.Directive, len(decision.Kept), reason)
	switch decision.Directive {
	case lifecycle.Restart:
		s.later(decision.Delay, func() {
			if !s.ends(name) {
				parent.RestartChildren(child)
			}
		})
	case lifecycle.Stop:
		parent.StopChildren(child)
	case lifecycle.Escalate:
		if s.escalate != nil {
			s.escalate(name, reason)
			return
		}
		parent.EscalateFailure(reason, message)
	}
}

// ends reports whether a child may no longer be restarted.
func (s *supervision) ends(child string) bool { return s.off || s.stops != nil && s.stops(child) }

// note writes the one record of a failure.
func (s *supervision) note(child string, directive lifecycle.Directive, failures int, reason any) {
	done := directiveName(directive)
	s.rt.recorder.add(MetricRestarts, 1, memberNamed(child).name, done)
	s.rt.log.LogAttrs(context.Background(), slog.LevelError, "actor failed",
		slog.String("actor", child), slog.String("directive", done), slog.Int("failures", failures),
		slog.String("reason", fmt.Sprint(reason)))
}

func directiveName(d lifecycle.Directive) string {
	switch d {
	case lifecycle.Restart:
		return "restart"
	case lifecycle.Stop:
		return "stop"
	case lifecycle.Escalate:
		return "escalate"
	}
	return fmt.Sprintf("directive(%d)", uint8(d))
}

// lastName is the name that an actor has below its parent.
func lastName(pid *PID) string {
	id := pid.GetId()
	return id[strings.LastIndexByte(id, '/')+1:]
}

// listChildren asks a supervisor for the names of its children, for tests.
type listChildren struct{ to chan<- []string }

func (m *listChildren) answer(ctx actorContext) {
	var names []string
	for _, pid := range ctx.Children() {
		names = append(names, lastName(pid))
	}
	m.to <- names
}
