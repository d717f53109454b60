package actors

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// invoker is an actor's context that keeps the messages it is given.
type invoker struct {
	mu      sync.Mutex
	handled []any
	failed  []any
	panics  any // makes it panic
}

func (i *invoker) InvokeSystemMessage(message any) { i.invoke(message) }

func (i *invoker) InvokeUserMessage(message any) { i.invoke(message) }

func (i *invoker) EscalateFailure(_, message any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.failed = append(i.failed, message)
}

func (i *invoker) invoke(message any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handled = append(i.handled, message)
	if i.panics != nil && message == i.panics {
		panic("a bug")
	}
}

func attachedTo(i *invoker) *mailbox {
	m := &mailbox{}
	m.RegisterHandlers(i, inline{})
	m.Start()
	return m
}

func TestAMailboxKeepsWhatComesBeforeItsActor(t *testing.T) {
	t.Parallel()
	i, m := &invoker{}, &mailbox{}
	m.PostUserMessage("early")
	m.RegisterHandlers(i, inline{})
	m.PostUserMessage("early, too")
	m.PostSystemMessage(&started{})
	require.Empty(t, i.handled)
	require.Equal(t, 2, m.UserMessageCount())
	m.Start()
	require.Equal(t, []any{&started{}, "early", "early, too"}, i.handled)
	require.Zero(t, m.UserMessageCount())
}

// A failed actor is suspended by a message of the system, which comes before its next
// message, and continues when it is resumed.
func TestAMailboxSuspendsAFailedActor(t *testing.T) {
	t.Parallel()
	i := &invoker{panics: "bad"}
	m := attachedTo(i)
	m.PostSystemMessage(&suspendMailbox{})
	m.PostUserMessage("bad")
	m.PostUserMessage("next")
	require.Empty(t, i.handled)
	m.PostSystemMessage(&stopping{})
	require.Equal(t, []any{&stopping{}}, i.handled, "messages of the system are handled all the same")
	m.PostSystemMessage(&resumeMailbox{})
	require.Equal(t, []any{&stopping{}, "bad", "next"}, i.handled)
	require.Equal(t, []any{"bad"}, i.failed)
}

// Each message is handled once and alone, and the messages of one sender in order.
func TestAMailboxUnderManySenders(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]dispatcher{"inline": inline{}, "goroutines": roomy{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const senders, each = 8, 2000
			type numbered struct{ sender, number int }
			var last [senders]int
			handled, done := 0, make(chan struct{})
			m := &mailbox{}
			m.RegisterHandlers(&counting{func(message any) { // unsynchronized: the race detector judges
				n, _ := message.(numbered)
				if n.number != last[n.sender]+1 {
					t.Errorf("message %d after %d", n.number, last[n.sender])
				}
				last[n.sender] = n.number
				if handled++; handled == senders*each {
					close(done)
				}
			}}, where)
			m.Start()
			for sender := range senders {
				go func() {
					for number := 1; number <= each; number++ {
						m.PostUserMessage(numbered{sender, number})
					}
				}()
			}
			<-done
		})
	}
}

type counting struct{ handle func(message any) }

func (c *counting) InvokeSystemMessage(any)       {}
func (c *counting) InvokeUserMessage(m any)       { c.handle(m) }
func (c *counting) EscalateFailure(reason, _ any) { panic(reason) }

// A queue that is never empty takes no more room than its longest content needs.
func TestAMessageQueueReusesItsRoom(t *testing.T) {
	t.Parallel()
	q := &messageQueue{}
	for n := range 10 {
		q.push(n)
	}
	for n := range 10_000 {
		require.Equal(t, n, q.pop())
		q.push(n + 10)
	}
	require.LessOrEqual(t, cap(q.items), 64)
}
