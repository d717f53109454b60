package orders

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-dev/troupe"
	example "github.com/troupe-dev/troupe/examples/orders"
)

// B35: a client that is slow, or sends too much, is answered or cut off, whatever part of
// a request it is about.
func TestB35NoClientHoldsUpThePort(t *testing.T) {
	t.Parallel()
	engine, err := troupe.NewInMemory(troupe.Config{})
	require.NoError(t, err)
	handle, err := troupe.Register(engine, example.Workflow(nil))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, engine.Stop(context.WithoutCancel(t.Context()))) })
	handler := Handler(engine, handle)
	const get, post = "GET /orders/none HTTP/1.1\r\nHost: troupe\r\n", "POST /orders HTTP/1.1\r\nHost: troupe\r\n"
	const short = 20 * time.Millisecond
	hurried := func(change func(p *patience)) patience {
		p := usual()
		change(&p)
		return p
	}
	slow := hurried(func(p *patience) { p.read = short })
	large := fmt.Sprintf(`{"ID": "%s", "Cents": 1}`, strings.Repeat("x", 2*orderMax))
	for name, c := range map[string]struct {
		patience patience
		sent     string
		want     string // the begin of the answer; "": none
	}{
		"slow headers":  {slow, get, ""},
		"slow body":     {slow, post + "Content-Length: 100\r\n\r\n{", "HTTP/1.1 400"},
		"idle":          {hurried(func(p *patience) { p.idle = short }), get + "\r\n", "HTTP/1.1 404"},
		"large headers": {usual(), get + "Cookie: " + strings.Repeat("x", 2*headerMax) + "\r\n\r\n", "HTTP/1.1 431"},
		"large body":    {usual(), fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", post, len(large), large), "HTTP/1.1 400"},
		"endless body":  {usual(), post + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1000\r\n"+strings.Repeat(" ", 0x1000)+"\r\n", 8), "HTTP/1.1 400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			s := server(handler, c.patience)
			go func() { _ = s.Serve(port) }()
			t.Cleanup(func() { _ = s.Close() })
			client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", port.Addr().String())
			require.NoError(t, err)
			t.Cleanup(func() { _ = client.Close() })
			require.NoError(t, client.SetDeadline(time.Now().Add(10*time.Second))) // far beyond what is short here
			go func() { _, _ = io.WriteString(client, c.sent) }()                  // the server may hang up before all is sent
			answer, err := io.ReadAll(client)
			if len(c.want) == 0 || err != nil && len(answer) == 0 {
				require.NoError(t, err, "the server hangs up")
			}
			require.True(t, strings.HasPrefix(string(answer), c.want), "%q", answer)
			if c.want == "" {
				require.Empty(t, answer)
			}
		})
	}
}

// Of what the port waits for, nothing is waited for without end.
func TestB35ThePortWaitsForNothingWithoutEnd(t *testing.T) {
	t.Parallel()
	s := server(nil, usual())
	for _, limit := range []time.Duration{s.ReadTimeout, s.WriteTimeout, s.IdleTimeout} {
		require.Positive(t, limit)
		require.LessOrEqual(t, limit, time.Minute)
	}
	require.Positive(t, s.MaxHeaderBytes)
}
