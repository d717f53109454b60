package actors

import (
	"fmt"

	"github.com/troupe-dev/troupe/internal/panics"
	"github.com/troupe-dev/troupe/messages"
	"github.com/troupe-dev/troupe/persistence"
	"github.com/troupe-dev/troupe/workflow"
)

// judging is one TriggerRun message whose input is evaluated by the embedder's codec and
// conditions: in the order of arrival, one at a time.
type judging struct {
	message *messages.TriggerRun
	answer  func(triggerAnswers)
	number  int64  // of the evaluation under way; 0: not begun
	stop    func() // stops the timer of that
}

// judged is the end of an evaluation.
type judged struct {
	number  int64
	trigger persistence.Trigger
	refused *Refusal
}

func (a *intake) onTriggerRun(sender *PID, m *messages.TriggerRun) {
	answer := a.answerTo(sender, m.GetRequestId())
	switch config := &a.rt.config; {
	case a.carryover.stopping:
		answer(triggerAnswers{refused: refuseStopping()})
	case a.full(), a.carryover.rows+len(a.carryover.judging) >= config.IntakePending, len(a.carryover.abandoned) >= config.StuckMax:
		answer(triggerAnswers{refused: refuseFull()})
	default:
		a.carryover.judging = append(a.carryover.judging, &judging{message: m, answer: answer})
		a.judge()
	}
}

// judge begins the next evaluation, on a goroutine of the executor: the embedder's code
// may block or panic there as in a step.
func (a *intake) judge() {
	if len(a.carryover.judging) == 0 || a.carryover.judging[0].number != 0 {
		return
	}
	rt, head := a.rt, a.carryover.judging[0]
	head.number = rt.numbers.next()
	message, number := head.message, head.number
	rt.executor.Execute(a.self, workflow.TaskID{}, func(deliver func(any)) {
		end := &judged{number: number, refused: refuse(BadInput, "input", "its evaluation ended the goroutine")}
		defer func() { deliver(end) }()
		defer func() {
			if r := recover(); r != nil {
				end.refused = refuse(BadInput, "input", fmt.Sprintf("its evaluation panicked: %s", panics.Text(r)))
			}
		}()
		end.trigger, end.refused = rt.triggerOf(message)
	})
	head.stop = a.later(rt.config.TriggerTimeout, func() { a.onJudgeLate(number) })
}

// judgeAgain begins the look anew that the last incarnation had begun: its end
// may have been lost with it.
func (a *intake) judgeAgain() {
	if len(a.carryover.judging) > 0 {
		head := a.carryover.judging[0]
		if head.number = 0; head.stop != nil {
			head.stop()
		}
	}
	a.judge()
}

func (a *intake) onJudged(m *judged) {
	head := a.judgedHead(m.number)
	if head == nil {
		delete(a.carryover.abandoned, m.number)
		return
	}
	if m.refused != nil {
		head.answer(triggerAnswers{refused: m.refused})
	} else {
		a.accept(&question{
			asker:    asker{deadline: a.rt.now().Add(a.rt.config.TriggerTimeout)},
			triggers: []persistence.Trigger{m.trigger}, bytes: triggerBytes(&m.trigger), answer: head.answer,
		})
	}
	a.judge()
	a.tellDrained()
}

// onJudgeLate gives up on an evaluation that takes too long: the embedder's code is slow,
// or the pod was frozen.
func (a *intake) onJudgeLate(number int64) {
	head := a.judgedHead(number)
	if head == nil {
		return
	}
	a.carryover.abandoned[number] = true
	head.answer(triggerAnswers{refused: refuse(Unavailable, "input", "looking at it took too long: trigger again; if that does not help, the codec or a condition hangs")})
	a.judge()
	a.tellDrained()
}

// judgedHead takes the message off that a look was for; nil: it was given up.
func (a *intake) judgedHead(number int64) *judging {
	if len(a.carryover.judging) == 0 || a.carryover.judging[0].number != number {
		return nil
	}
	head := a.carryover.judging[0]
	a.carryover.judging = a.carryover.judging[1:]
	head.stop()
	return head
}

func refuseStopping() *Refusal {
	return refuse(Stopping, "", "the pod is stopping: ask another one")
}

func refuseFull() *Refusal {
	return refuse(Overloaded, "", "too many triggers and signals wait to be stored: try again later")
}
