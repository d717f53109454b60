package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// obey does what the test says, a line at a time: a command, then what
// it is about.
func (p *podProcess) obey() {
	commands := p.commands()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		if carryOut := commands[words[0]]; carryOut != nil {
			carryOut(append(words[1:], "", "")) // so that all have arguments
		} else {
			p.spec.Soak.obey(words)
		}
	}
}

// commands is what a test may tell a pod. Each is answered by a line that begins
// with a word of its own.
func (p *podProcess) commands() map[string]func(args []string) {
	return map[string]func(args []string){
		// quiet ends the load.
		"quiet": func([]string) {
			close(p.quiet)
			go func() {
				p.callers.Wait()
				p.say("quiet")
			}()
		},
		// goroutines counts them: those after the start, and those of now.
		"goroutines": func([]string) { p.say("goroutines %d %d", p.base, runtime.NumGoroutine()) },
		"stats":      func([]string) { p.tellJSON("stats", p.engine.Stats()) },
		"health":     func([]string) { p.tellJSON("health", p.engine.Health(context.Background())) },
		// hoard takes all file descriptors, release gives them back.
		"hoard": func([]string) { p.say("hoarded %s", p.hoard()) },
		"release": func([]string) {
			p.release()
			p.say("released")
		},
		// flood SHAPE/TENANT N triggers many runs with few calls.
		"flood": func(args []string) {
			n, _ := strconv.Atoi(args[1]) // the test sends numbers
			p.say("flooded %s", p.flood(args[0], n))
		},
		// trigger SHAPE/TENANT N triggers runs and tells their ids.
		"trigger": func(args []string) {
			n, _ := strconv.Atoi(args[1]) // the test sends numbers
			p.say("triggered %s", strings.Join(p.triggerSome(args[0], n), " "))
		},
	}
}

func (p *podProcess) tellJSON(what string, value any) {
	text, _ := json.Marshal(value) // plain numbers and texts
	p.say("%s %s", what, text)
}
