package actors

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// parkedQuiet is the time between two log records about the same parked step.
const parkedQuiet = time.Hour

// parkedSaid is when the pod last logged that no living pod can execute a step. Terms and
// restarts of the housekeeper do not change it.
type parkedSaid map[parkedStep]time.Time

type parkedStep struct {
	workflow, step string
	definition     workflow.Hash
}

// news returns what has not been logged within the last hour, and notes that it is now.
func (s parkedSaid) news(work []persistence.ParkedWork, now time.Time) (news []persistence.ParkedWork) {
	for step, at := range s {
		if now.Sub(at) >= parkedQuiet {
			delete(s, step)
		}
	}
	for _, w := range work {
		step := parkedStep{w.Workflow, w.Step, w.Definition}
		if _, said := s[step]; !said {
			s[step] = now
			news = append(news, w)
		}
	}
	return news
}

const parkedRemedy = "start a pod of a version that has this step as it was when its runs began, or cancel the runs"

// parkedTrouble says which work no living pod can execute; "": there is none.
func parkedTrouble(work []persistence.ParkedWork) string {
	if len(work) == 0 {
		return ""
	}
	w, others := work[0], ""
	switch n := len(work) - 1; {
	case n == 1:
		others = ", nor another step with parked tasks"
	case n > 1:
		others = fmt.Sprintf(", nor %d other steps with parked tasks", n)
	}
	return fmt.Sprintf("no living pod registers step %q of workflow %q (definition %.8s, parked tasks: %s)%s: %s; troupe doctor lists them",
		w.Step, w.Workflow, w.Definition, parkedCount(w), others, parkedRemedy)
}

func parkedCount(w persistence.ParkedWork) string {
	if w.Tasks == persistence.ParkedCountMax {
		return fmt.Sprintf("at least %d", w.Tasks)
	}
	return fmt.Sprint(w.Tasks)
}
