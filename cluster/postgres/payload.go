package postgres

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/cluster"
	"github.com/troupe-dev/troupe/workflow"
)

const (
	payloadVersion  = "1"
	payloadBytesMax = 7999 // PostgreSQL wants fewer than 8000
	payloadsMax     = 16   // of one notice; beyond it, its wakes name no runs and queues
)

var errPayload = errors.New("notification of another format")

// Payloads returns a notice as the texts of notifications, usually one. The
// format is words separated by spaces: the version, the sender, then
//
//	p<epoch>,<mode>,<pods>,<relayed>,<resigned>   the ping
//	w<bytes>                                      how far the log is written; the server adds it to a ping
//	r<count>,<key>,<queue>                        tasks became ready
//	s   t<microseconds>   e<run>   c<run>         the other wakes
//
// Readers skip words that they do not know.
func Payloads(n cluster.Notice) []string {
	parts := split(n)
	if len(parts) > payloadsMax {
		few := cluster.NewCoalescer(cluster.WakeLimits{Queues: 1, Runs: 1})
		few.Add(n.Wakes...)
		parts = split(cluster.Notice{From: n.From, Ping: n.Ping, Wakes: few.Drain()})
	}
	return parts
}

// ParsePayload reads one text that Payloads wrote.
func ParsePayload(text string) (cluster.Notice, error) {
	n, _, err := parsePayload(text)
	return n, err
}

// parsePayload is ParsePayload with how far the server's log is written; 0: the text
// does not say.
func parsePayload(text string) (n cluster.Notice, written uint64, err error) {
	words := strings.Split(text, " ")
	if len(words) < 2 || words[0] != payloadVersion {
		return cluster.Notice{}, 0, errPayload
	}
	if n.From, err = strconv.ParseInt(words[1], 10, 64); err != nil {
		return cluster.Notice{}, 0, errPayload
	}
	for _, word := range words[2:] {
		switch {
		case word == "":
			err = errPayload
		case word[0] == 'w':
			written, err = strconv.ParseUint(word[1:], 10, 64)
		default:
			err = readWord(&n, word[0], word[1:])
		}
		if err != nil {
			return cluster.Notice{}, 0, errPayload
		}
	}
	return n, written, nil
}

func split(n cluster.Notice) []string {
	head := payloadVersion + " " + strconv.FormatInt(n.From, 10)
	var parts []string
	var text strings.Builder
	text.WriteString(head)
	if n.Ping != nil {
		text.WriteString(" " + pingWord(*n.Ping))
	}
	for _, w := range n.Wakes {
		word := wakeWord(w)
		if word == "" {
			continue
		}
		if text.Len()+1+len(word) > payloadBytesMax {
			parts = append(parts, text.String())
			text.Reset()
			text.WriteString(head)
		}
		text.WriteString(" " + word)
	}
	return append(parts, text.String())
}

func pingWord(p cluster.Ping) string {
	resigned := int64(0)
	if p.Resigned {
		resigned = 1
	}
	return "p" + joined(p.Epoch, int64(p.Mode), int64(p.Pods), p.Relayed, resigned)
}

// wakeWord returns "" for a kind without a word. A queue whose name would fill
// a notification is not named.
func wakeWord(w cluster.Wake) string {
	switch w.Kind {
	case cluster.WakeReady:
		queue := url.QueryEscape(w.Queue)
		if len(queue) > payloadBytesMax/2 {
			queue = ""
		}
		return "r" + strconv.Itoa(w.Count) + "," + strconv.FormatUint(w.Key, 36) + "," + queue
	case cluster.WakeSubmitted:
		return "s"
	case cluster.WakeTimer:
		if w.At.IsZero() {
			return "t"
		}
		return "t" + strconv.FormatInt(w.At.UnixMicro(), 10)
	case cluster.WakeEnded:
		return "e" + runWord(w.Run)
	case cluster.WakeCanceling:
		return "c" + runWord(w.Run)
	}
	return ""
}

func runWord(run workflow.RunID) string {
	if run.IsZero() {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(run[:])
}

func readWord(n *cluster.Notice, kind byte, rest string) error {
	w, err := cluster.Wake{}, error(nil)
	switch kind {
	case 'p':
		n.Ping, err = readPing(rest)
		return err
	case 'r':
		w, err = readReady(rest)
	case 's':
		w.Kind = cluster.WakeSubmitted
	case 't':
		w, err = readTimer(rest)
	case 'e':
		w.Kind = cluster.WakeEnded
		w.Run, err = readRun(rest)
	case 'c':
		w.Kind = cluster.WakeCanceling
		w.Run, err = readRun(rest)
	default:
		return nil
	}
	if err != nil {
		return errPayload
	}
	n.Wakes = append(n.Wakes, w)
	return nil
}

func readPing(text string) (*cluster.Ping, error) {
	var numbers [5]int64
	fields := strings.Split(text, ",")
	if len(fields) < len(numbers) {
		return nil, errPayload
	}
	for i := range numbers {
		number, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return nil, errPayload
		}
		numbers[i] = number
	}
	return &cluster.Ping{
		Epoch: numbers[0], Mode: cluster.Mode(numbers[1]), Pods: int(numbers[2]), Relayed: numbers[3], Resigned: numbers[4] != 0,
	}, nil
}

func readReady(text string) (cluster.Wake, error) {
	fields := strings.SplitN(text, ",", 3)
	if len(fields) < 3 {
		return cluster.Wake{}, errPayload
	}
	count, err := strconv.Atoi(fields[0])
	if err != nil {
		return cluster.Wake{}, err
	}
	key, err := strconv.ParseUint(fields[1], 36, 64)
	if err != nil {
		return cluster.Wake{}, err
	}
	queue, err := url.QueryUnescape(fields[2])
	return cluster.Wake{Kind: cluster.WakeReady, Queue: queue, Count: count, Key: key}, err
}

func readTimer(text string) (cluster.Wake, error) {
	if text == "" {
		return cluster.Wake{Kind: cluster.WakeTimer}, nil
	}
	micros, err := strconv.ParseInt(text, 10, 64)
	return cluster.Wake{Kind: cluster.WakeTimer, At: time.UnixMicro(micros).UTC()}, err
}

func readRun(text string) (workflow.RunID, error) {
	var run workflow.RunID
	if text == "" {
		return run, nil
	}
	id, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(id) != len(run) {
		return run, errPayload
	}
	return workflow.RunID(id), nil
}

func joined(numbers ...int64) string {
	var text []byte
	for i, n := range numbers {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, n, 10)
	}
	return string(text)
}
