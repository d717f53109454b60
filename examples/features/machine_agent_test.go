package features_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/simtest"
	"github.com/troupe-dev/troupe/statemachine"
)

// message is a line of a conversation: of the user, the model or a tool.
type message struct{ From, Text string }

// toolCall is what the model wants to know from a tool.
type toolCall struct{ Tool, Argument string }

// thought is what the model comes to: calls of tools, or without any its answer.
type thought struct {
	Text  string
	Calls []toolCall
}

// conversation is what the agent remembers.
type conversation struct {
	Messages []message
	Turns    int
	Open     map[string]toolCall // the calls that have not ended, by the ids of their activities
	Asked    int                 // how many of the messages the model that reasons has been given
}

// said is the signal with which a user adds something.
var said = troupe.NewSignal[string]("said")

// turnsMax ends a conversation in which the model does not find an answer.
const turnsMax = 20

// agents answers a question: the model reasons and calls tools, all at once; it is given what they
// say, and reasons again, until it has an answer. A tool that fails for good is an answer of the
// tool: the model has to find another way. What the user adds meanwhile is given to the model with
// its next turn, and there is one.
func agents(
	think func(ctx context.Context, messages []message) (thought, error),
	use func(ctx context.Context, call toolCall) (string, error),
) *statemachine.Machine[string, conversation, string] {
	type activation = statemachine.Activation[conversation, string]
	return statemachine.Define("agents", func(m *statemachine.Builder[string, conversation, string]) {
		reason := statemachine.Activity(m, "reason", think,
			troupe.HeartbeatTimeout(30*time.Second), troupe.AttemptTimeout(10*time.Minute), troupe.Retry{Attempts: 50})
		tool := statemachine.Activity(m, "tool", use, troupe.Retry{Attempts: 50, Never: []string{"no_such_tool"}})

		hears := func(a *activation, from, text string) {
			a.State.Messages = append(a.State.Messages, message{from, text})
		}
		next := func(a *activation) {
			if a.State.Turns == turnsMax {
				a.Fail(fmt.Errorf("there is no answer after %d turns", turnsMax))
				return
			}
			a.State.Turns++
			a.State.Asked = len(a.State.Messages)
			reason.Start(a, a.State.Messages)
		}
		answered := func(a *activation, text string) {
			call := a.State.Open[a.ID]
			delete(a.State.Open, a.ID)
			hears(a, call.Tool, text)
			if len(a.State.Open) == 0 {
				next(a)
			}
		}

		m.OnStart(func(a *activation, question string) {
			a.State.Open = map[string]toolCall{}
			hears(a, "user", question)
			next(a)
		})
		statemachine.OnCompleted(m, reason, func(a *activation, out thought) {
			interrupted := len(a.State.Messages) > a.State.Asked
			hears(a, "model", out.Text)
			for _, call := range out.Calls {
				a.State.Open[tool.Start(a, call)] = call
			}
			switch {
			case len(out.Calls) > 0: // their ends go on
			case interrupted:
				next(a)
			default:
				a.Complete(out.Text)
			}
		})
		statemachine.OnCompleted(m, tool, answered)
		m.OnFailed(tool, func(a *activation, why *troupe.StepError) { answered(a, "failed: "+why.Text) })
		statemachine.OnSignal(m, said, func(a *activation, text string) { hears(a, "user", text) })
	})
}

// reply is what the model of the tests makes of a conversation.
func reply(messages []message) thought {
	var question string
	var told []string
	for _, m := range messages {
		switch m.From {
		case "model":
		case "user":
			question = m.Text
		default:
			told = append(told, m.From+": "+m.Text)
		}
	}
	if len(told) == 0 {
		return thought{"let me see", []toolCall{{"weather", "Lisbon"}, {"calendar", "Friday"}, {"oracle", "Friday"}}}
	}
	slices.Sort(told)
	return thought{Text: question + " " + strings.Join(told, ", ")}
}

// ask is what the tools of the tests say.
func ask(call toolCall) (string, error) {
	switch call.Tool {
	case "weather":
		return "sunny", nil
	case "calendar":
		return "free", nil
	default:
		return "", troupe.Class("no_such_tool", fmt.Errorf("there is no %s", call.Tool))
	}
}

// A model that writes shows that it is alive. One that falls silent is asked again; a message that
// comes while it writes gets a turn of its own.
func TestAnAgent(t *testing.T) {
	hung := &ledger[string]{}
	think := func(ctx context.Context, messages []message) (thought, error) {
		if task := troupe.Task(ctx); task.Step == "reason#1" && task.Attempt == 1 {
			hung.add(task.Step)
			<-ctx.Done()
			return thought{}, context.Cause(ctx)
		}
		for range 50 { // a word each
			time.Sleep(time.Second)
			if err := troupe.Heartbeat(ctx, nil); err != nil {
				return thought{}, err
			}
		}
		return reply(messages), nil
	}
	use := func(_ context.Context, call toolCall) (string, error) {
		time.Sleep(20 * time.Second)
		return ask(call)
	}
	machine := agents(think, use)
	inMemory(t, troupe.Config{}, machine, func(t *testing.T, engine *troupe.Engine, handle *troupe.Handle[string, string]) {
		began := time.Now()
		run, err := handle.RunNoWait(t.Context(), "a picnic on Friday?")
		require.NoError(t, err)
		time.Sleep(95 * time.Second) // 30 s of silence, a second, and 50 s of writing
		now, err := machine.State(t.Context(), run)
		require.NoError(t, err)
		require.Len(t, now.Open, 3, "the tools are asked at once")
		time.Sleep(30 * time.Second)
		require.Equal(t, troupe.StateRunning, statesOf(t, engine, run.ID())["reason#5"])
		require.NoError(t, said.Send(t.Context(), run, "a picnic for two?"))
		answer, err := run.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a picnic for two? calendar: free, oracle: failed: there is no oracle, weather: sunny", answer)
		require.Equal(t, []string{"reason#1"}, hung.all())
		require.InDelta(t, 201*time.Second, time.Since(began), float64(2*time.Second))

		now, err = machine.State(t.Context(), run)
		require.NoError(t, err)
		require.Equal(t, 3, now.Turns)
		letters, err := engine.DeadLetters().List(t.Context(), troupe.DeadLetterFilter{})
		require.NoError(t, err)
		require.Len(t, letters.Letters, 1)
		require.Equal(t, "tool#4", letters.Letters[0].Step)
	})
}

// The same on clusters that crash, with a message at any time: what the user has added is in the
// last turn, or the agent had ended.
func TestAnAgentUnderFaults(t *testing.T) {
	t.Parallel()
	simtest.Run(t, simtest.Options{Seeds: 20}, func(s *simtest.Sim) {
		used := map[string]string{}
		tools := simtest.NewService(s, &used)
		model := simtest.NewService(s, new(int)).Latency(time.Second, time.Minute)
		think := func(ctx context.Context, messages []message) (thought, error) {
			err := model.Do(ctx, func(asked *int) error { *asked++; return troupe.Heartbeat(ctx, nil) })
			return reply(messages), err
		}
		use := func(ctx context.Context, call toolCall) (said string, err error) {
			key := troupe.Task(ctx).IdempotencyKey
			err = tools.Do(ctx, func(used *map[string]string) (err error) {
				(*used)[key] = call.Tool
				said, err = ask(call)
				return err
			})
			return said, err
		}
		run := simtest.Register(s, agents(think, use)).Start("a picnic on Friday?")
		s.Advance(time.Duration(s.Rand().IntN(120)) * time.Second)
		sent := simtest.TrySend(run, said, "a picnic for two?")
		answer, err := run.Await()
		require.NoError(s, err)
		question, told, _ := strings.Cut(answer, "? ")
		require.Equal(s, "calendar: free, oracle: failed: there is no oracle, weather: sunny", told)
		if question == "a picnic for two" {
			require.NoError(s, sent)
			s.Sometimes("the message was in time", true)
		}
		s.Sometimes("the message was late", errors.Is(sent, troupe.ErrRunEnded))
		require.Len(s, used, 3, "each tool is used once, under its key")
	})
}
